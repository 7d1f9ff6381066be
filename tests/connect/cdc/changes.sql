-- Changes besides types; each block that begins with a comment is one transaction.
-- keys: insert, update, changed key, delete
insert into keyed values (1, 'one', 10), (2, 'two', null);
update keyed set name = 'uno' where id = 1;
update keyed set id = 5 where id = 1;
update keyed set id = 2, amount = 3 where id = 2;
delete from keyed where id = 5;
-- keys of two columns, in another order than the columns
insert into two_keys values (1, 'x', 'a');
update two_keys set v = 'y';
update two_keys set a = 2;
delete from two_keys;
-- no key
insert into keyless values (1, 'a');
-- replica identity full
insert into full_rows values (1, 'a', 1.5), (2, null, null);
update full_rows set name = 'b' where id = 1;
update full_rows set id = 3 where id = 1;
delete from full_rows;
-- replica identity by an index
insert into by_index values (1, 'u1', 'x');
update by_index set v = 'y';
update by_index set u = 'u2';
delete from by_index;
-- a unique index and no primary key
insert into unique_only values (1, 'a');
update unique_only set name = 'b';
delete from unique_only;
-- names that need quotes
insert into "Odd Schema"."Odd-Täble" values (1, 'a', 'b');
-- defaults, and NOT NULL columns in deletes
insert into defaults (id) values (1);
delete from defaults;
insert into required values (1, true, 1, 1, 1, 1, 1, 1, 1, 'x', '\x01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-01-01', '01:00', '01:00+00', '2024-01-01 00:00+00', '1 day', B'1', B'101', 'ok', '{1}', 1, '(1,1)', '<a/>', '[1,2)', 'a=>1', 1, '1.2.3.4', 'a', 'x');
delete from required;
-- values out of line stay unchanged
insert into toasted (id, n) select 1, 0;
update toasted set t = repeat(md5('1'), 400), b = decode(repeat(md5('2'), 400), 'hex'), j = jsonb_build_object('a', repeat(md5('3'), 400)), ta = array[repeat(md5('4'), 400)], ia = (select array_agg(i) from generate_series(1, 3000) i), ba = (select array_agg(i::int8) from generate_series(1, 3000) i), h = hstore('a', repeat(md5('5'), 400)), ua = (select array_agg(md5(i::text)::uuid) from generate_series(1, 300) i), bya = array[decode(repeat(md5('6'), 400), 'hex')], num = repeat('123456789', 900)::numeric, x = xmlelement(name a, repeat(md5('7'), 400)), bb = repeat('10', 20000)::varbit, va = array[repeat(md5('8'), 400)]::varchar[], da = (select array_agg('2024-01-01'::date + i) from generate_series(1, 3000) i), fa = (select array_agg(i::float8) from generate_series(1, 3000) i);
update toasted set n = 1;
update toasted set id = 2;
-- values out of line with replica identity full
insert into toasted_full values (1, repeat(md5('1'), 400), 0);
update toasted_full set n = 1;
-- an empty transaction of another database object
create table uncaptured_later (id int primary key);
-- messages
select pg_logical_emit_message(true, 'a prefix', 'content');
select pg_logical_emit_message(true, '', '');
insert into keyed values (20, 'beside a message', 0);
-- a transaction that rolls back to a savepoint
insert into keyed values (21, 'kept', 0);
savepoint s;
insert into keyed values (22, 'lost', 0);
rollback to savepoint s;
insert into keyed values (23, 'kept too', 0);
-- truncate
truncate keyed, two_keys;
-- partitions
insert into parted values (1, 'a'), (11, 'b');
-- generated columns
insert into generated_columns (id, a) values (1, 2);
update generated_columns set a = 3;
