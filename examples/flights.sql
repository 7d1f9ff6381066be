-- The demo's flights (docs/demo.md) in SQL. Start a node and a SQL server, have the demo send its flights, and run
-- this script as soon as it sends them:
--
--   penstock start --data-dir flights
--   penstock sql server
--   penstock demo --bootstrap 127.0.0.1:9092
--   penstock sql -f examples/flights.sql
--
-- and ask, while all of that runs:
--
--   penstock sql -e "SELECT * FROM airline_delays;"
--   penstock sql -e "SELECT airport, flights, delayed FROM destination_delays WHERE dest = 'BOS';"
--   penstock sql -e "SELECT * FROM airline_hours WHERE carrier = 'UA' AND WINDOWSTART < '2013-01-02';"
--   penstock sql -e "SELECT origin_hour, visib, delay_minutes FROM weather_delays EMIT CHANGES LIMIT 10;"

SET 'auto.offset.reset' = 'earliest';

-- One topic in two ways. As a stream it is reports: each a fact that came when it came.
CREATE STREAM reports (
    flight_id STRING KEY, carrier STRING, tailnum STRING, origin STRING, dest STRING, sched_dep STRING,
    dep_delay INT
  ) WITH (KAFKA_TOPIC = 'nyc.flights', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');

-- As a table it is what is known now: a report replaces the one before, a tombstone takes it back.
CREATE SOURCE TABLE flights (
    flight_id STRING PRIMARY KEY, carrier STRING, tailnum STRING, origin STRING, dest STRING,
    sched_dep STRING, dep_delay INT
  ) WITH (KAFKA_TOPIC = 'nyc.flights', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');

CREATE TABLE airlines (carrier STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC = 'nyc.airlines', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');
CREATE TABLE airports (faa STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC = 'nyc.airports', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');
CREATE TABLE planes (tailnum STRING PRIMARY KEY, seats INT)
  WITH (KAFKA_TOPIC = 'nyc.planes', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');
CREATE TABLE weather (origin_hour STRING PRIMARY KEY, wind_speed DOUBLE, visib DOUBLE)
  WITH (KAFKA_TOPIC = 'nyc.weather', KEY_FORMAT = 'KAFKA', VALUE_FORMAT = 'JSON');

-- Each airline's hours, told once, when they close. What is late for an hour is decided by the order of a
-- partition: so reports are brought to their airline's, first. Those without an airline are tombstones. The hours
-- are of 2013: a topic of a shorter retention would lose them as soon as they are written.
CREATE STREAM airline_reports AS
  SELECT * FROM reports WHERE carrier IS NOT NULL PARTITION BY carrier;

CREATE TABLE airline_hours AS
  SELECT carrier, COUNT(*) AS flights, COUNT(*) - COUNT(dep_delay) AS cancelled,
    SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) AS delayed, SUM(dep_delay) AS delay_minutes
  FROM airline_reports WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 36500 DAYS, GRACE PERIOD 6 HOURS)
  GROUP BY carrier EMIT FINAL;

-- Sums over a table follow it: a corrected flight leaves its old group and enters its new one, and a plane
-- with other seats changes the sums of all that it flew. A group stays when its last flight has gone: HAVING
-- deletes it.
CREATE TABLE airline_sums AS
  SELECT f.carrier AS carrier, COUNT(*) AS flights, COUNT(*) - COUNT(f.dep_delay) AS cancelled,
    SUM(CASE WHEN f.dep_delay > 15 THEN 1 ELSE 0 END) AS delayed, SUM(f.dep_delay) AS delay_minutes,
    SUM(p.seats) AS seats
  FROM flights f LEFT JOIN planes p ON f.tailnum = p.tailnum
  GROUP BY f.carrier HAVING COUNT(*) > 0;

CREATE TABLE airline_delays AS
  SELECT s.carrier AS carrier, a.name AS airline, flights, cancelled, delayed, delay_minutes, seats
  FROM airline_sums s LEFT JOIN airlines a ON s.carrier = a.carrier;

CREATE TABLE destination_sums AS
  SELECT dest, COUNT(*) AS flights, COUNT(*) - COUNT(dep_delay) AS cancelled,
    SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) AS delayed, SUM(dep_delay) AS delay_minutes
  FROM flights GROUP BY dest HAVING COUNT(*) > 0;

CREATE TABLE destination_delays AS
  SELECT s.dest AS dest, a.name AS airport, flights, cancelled, delayed, delay_minutes
  FROM destination_sums s LEFT JOIN airports a ON s.dest = a.faa;

-- By airport and hour of departure, as the weather is: JFK 2013-01-01T10.
CREATE TABLE hour_sums AS
  SELECT CONCAT(origin, ' ', SUBSTRING(sched_dep, 1, 13)) AS origin_hour, COUNT(*) AS flights,
    COUNT(*) - COUNT(dep_delay) AS cancelled, SUM(CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END) AS delayed,
    SUM(dep_delay) AS delay_minutes
  FROM flights GROUP BY CONCAT(origin, ' ', SUBSTRING(sched_dep, 1, 13)) HAVING COUNT(*) > 0;

CREATE TABLE weather_delays AS
  SELECT s.origin_hour AS origin_hour, wind_speed, visib, flights, cancelled, delayed, delay_minutes
  FROM hour_sums s LEFT JOIN weather w ON s.origin_hour = w.origin_hour;
