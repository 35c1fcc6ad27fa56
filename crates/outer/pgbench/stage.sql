-- What the scripts of this folder find, for clients 0 to 11. pgbench prepares all statements of a script before it executes
-- the first, so what a session will see under another search_path or as a temporary table has a stand-in in public.
create table things (side text);
insert into things values ('public');
create table scratch (n int);
insert into scratch values (-1);
create schema even;
create table even.things as select 'even' as side;
create schema odd;
create table odd.things as select 'odd' as side;
create role even;
create role odd;
grant usage on schema even, odd to even, odd;
grant all on all tables in schema public, even, odd to even, odd;
create table ledger (client text, amount int);
insert into ledger select n, n from generate_series(0, 11) n;
alter table ledger enable row level security;
create policy own on ledger using (client = current_setting('app.client'));
grant all on ledger to even, odd;
create table orders (id serial, client int);
create table counted as select 0 as n;
