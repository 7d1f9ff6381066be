create extension hstore;
create extension citext;
create extension ltree;
create extension isn;
create type mood as enum ('sad', 'ok', 'very happy', 'it''s');
create type "Quoted Mood" as enum ('x', 'y,z');
create domain positive as int4 check (value > 0);
create domain price as numeric(8,3);
create domain short_text as varchar(10);
create type complex as (a int4, b text);
create schema "Odd Schema";
create table keyed (id int primary key, name text not null, amount numeric(6,2) default 1.5);
create table two_keys (a int, v text, b varchar(10), primary key (b, a));
create table keyless (id int, name text);
create table full_rows (id int primary key, name text, price numeric(6,2));
alter table full_rows replica identity full;
create table by_index (id int primary key, u text not null unique, v text);
alter table by_index replica identity using index by_index_u_key;
create table unique_only (id int not null, name text);
create unique index on unique_only (id);
alter table unique_only replica identity using index unique_only_id_idx;
create table "Odd Schema"."Odd-Täble" ("Id" int primary key, "1st col" text, "a-b.c$" text);
create table defaults (
    id serial primary key, b bool default true, i2 int2 default 7, i4 int4 not null default 42, i8 int8 default '9223372036854775807',
    f4 float4 default 1.25, f8 float8 not null default 2.5, n numeric(10,2) default 12.5, n2 numeric(5,1) not null default 0, bare numeric default 1.5,
    t text default 'it''s', t2 text not null default '', v varchar(10) default 'abc', c char(5) default 'ab', nu text default null,
    u uuid default 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', ug uuid not null default gen_random_uuid(), j json default '{"a": 1}', jb jsonb not null default '{}',
    d date default '2024-02-29', d2 date not null default current_date, ti time default '12:34:56', ts timestamp default '2024-02-29 12:34:56.5',
    tz timestamptz default '2024-02-29 12:34:56+00', tz2 timestamptz not null default now(), ts3 timestamp(3) not null default '2024-02-29 12:34:56.5',
    iv interval default '1 day', b1 bit default B'1', b3 bit(3) default B'101', vb bit varying(5) default B'11',
    m mood default 'ok', m2 mood not null default 'sad', e int4 default 1 + 1, by bytea default '\x00ff', mo money default 1.5,
    a int4[] default '{1,2}', x xml default '<a/>', p positive default 5, ci citext default 'x', expr text default upper('a'), neg int4 default -5, nn numeric default NULL::numeric);
create table required (
    id int primary key, b bool not null, i2 int2 not null, i4 int4 not null, i8 int8 not null, f4 float4 not null, f8 float8 not null,
    n numeric(10,2) not null, bare numeric not null, t text not null, by bytea not null, u uuid not null,
    d date not null, ti time not null, tt timetz not null, tz timestamptz not null,
    iv interval not null, b1 bit not null, b3 bit(3) not null, m mood not null, a int4[] not null, mo money not null, p point not null,
    x xml not null, r int4range not null, h hstore not null, o oid not null, ip inet not null, c char(3) not null, ci citext not null);
create table toasted (id int primary key, n int, t text, b bytea, j jsonb, ta text[], ia int4[], ba int8[], h hstore, ua uuid[], bya bytea[], num numeric, x xml, bb varbit, va varchar[], da date[], fa float8[], tn text);
alter table toasted alter t set storage external, alter b set storage external, alter j set storage external, alter ta set storage external, alter ia set storage external, alter ba set storage external, alter h set storage external, alter ua set storage external, alter bya set storage external, alter x set storage external, alter bb set storage external, alter va set storage external, alter da set storage external, alter fa set storage external;
create table toasted_full (id int primary key, t text, n int);
alter table toasted_full alter t set storage external;
alter table toasted_full replica identity full;
create table parted (id int primary key, v text) partition by range (id);
create table parted_1 partition of parted for values from (0) to (10);
create table parted_2 partition of parted for values from (10) to (20);
create table generated_columns (id int primary key, a int, g int generated always as (a * 2) stored);
create table the_end (id int primary key);
