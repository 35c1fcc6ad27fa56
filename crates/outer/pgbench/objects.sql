-- A temporary table, a cursor WITH HOLD and an advisory lock, each over several transactions and gone in the end.
create temporary table scratch as select 0 as n limit 0;
insert into scratch values (:client_id);
select case when n = :client_id then 1 else ('scratch has ' || n)::int end from scratch;
drop table pg_temp.scratch;
select case when n = -1 then 1 else ('after DROP: ' || n)::int end from scratch;
declare walk cursor with hold for select n from generate_series(1, 3) n;
move 2 from walk;
fetch 1 from walk;
close walk;
select pg_advisory_lock(hashtext('counted'));
select n as seen from counted \gset
update counted set n = :seen + 1;
select case when mine then 1 else ('unlocked: ' || mine)::int end from pg_advisory_unlock(hashtext('counted')) mine;
