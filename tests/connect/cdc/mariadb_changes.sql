-- Each block is one transaction, or DDL.
-- tables
create table keyed (id int primary key, name varchar(20) not null default 'x', amount decimal(8,2));
create table pair (b int, a varchar(10), v int, primary key (a, b));
create table keyless (id int, name varchar(20));
create table left_out (id int primary key);
create table `odd table` (id int primary key, `odd cölumn` int);
create table generated_one (id int primary key, twice int as (id * 2) stored, thrice int as (id * 3) virtual)
-- rows
insert into keyed values (1, 'one', 1.5), (2, 'two', null), (3, 'three', 0);
update keyed set amount = amount + 1;
update keyed set id = id + 100 where id = 2;
delete from keyed where id = 3
-- a key of two columns
insert into pair values (1, 'x', 1), (2, 'y', 2);
update pair set b = 5 where a = 'x';
update pair set v = 9 where a = 'y';
delete from pair
-- no key
insert into keyless values (1, 'a'), (1, 'a');
update keyless set name = 'b';
delete from keyless
-- left out and odd
insert into left_out values (1);
insert into `odd table` values (1, 2);
update `odd table` set `odd cölumn` = null
-- generated
insert into generated_one (id) values (1), (2)
-- a column more
alter table keyed add column extra int not null default 5
-- rows after it
insert into keyed (id) values (10);
update keyed set extra = 6 where id = 10
-- changed and dropped columns
alter table keyed modify name text, drop column amount
-- rows after that
insert into keyed values (11, repeat('long', 100), 7)
-- renamed
rename table keyed to renamed
-- rows under the new name
insert into renamed values (12, 'n', 8)
-- truncated
truncate table renamed
-- rolled back
insert into renamed values (13, 'n', 8);
rollback
-- savepoint
insert into renamed values (14, 'n', 8);
savepoint s;
insert into renamed values (15, 'n', 8);
rollback to s;
insert into renamed values (16, 'n', 8)
-- created with rows
create table copied as select * from renamed
-- dropped
drop table left_out
-- no transactions
create table myisam_one (id int primary key, v int) engine = myisam
-- rows of it
insert into myisam_one values (1, 1), (2, 2);
update myisam_one set v = 3
-- the end
create table the_end (id int primary key)
-- last
insert into the_end values (1)
