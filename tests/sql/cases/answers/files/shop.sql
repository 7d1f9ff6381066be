-- What a case runs with RUN SCRIPT.
CREATE STREAM orders (id INT KEY, price DOUBLE) WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
INSERT INTO orders VALUES (1, 2.5);
