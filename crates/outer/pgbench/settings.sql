-- Each client has a role, a schema, a time zone and a number of its own, set with its first transaction. What is not as it
-- should be is cast to an integer, and so its words are in the error that ends the client.
\set even 1 - :client_id % 2
\if :started = 0
  select set_config('app.client', (:client_id)::text, false);
  \if :even
    set search_path = even, public;
    set time zone 'Asia/Tokyo';
    set work_mem = '2222kB';
    set role even;
  \else
    set search_path = odd, public;
    set time zone 'America/Caracas';
    set work_mem = '3333kB';
    set role odd;
  \endif
  \set started 1
\endif
select case when side = current_user then 1 else (side || ' under ' || current_user)::int end from things;
begin;
select case when amount = :client_id then 1 else ('row of ' || client || ', not ' || (:client_id)::text)::int end from ledger;
set local work_mem = '9999kB';
select case when v = '9999kB' then 1 else ('work_mem within: ' || v)::int end from current_setting('work_mem') v;
end;
\if :even
  select case when v = '2222kB' then 1 else ('work_mem: ' || v)::int end from current_setting('work_mem') v;
  select case when h = '09' then 1 else ('hour: ' || h)::int end from to_char(timestamptz '2024-01-01 00:00+00', 'HH24') h;
  select case when v = 'even' then 1 else ('user: ' || v)::int end from current_user v;
\else
  select case when v = '3333kB' then 1 else ('work_mem: ' || v)::int end from current_setting('work_mem') v;
  select case when h = '20' then 1 else ('hour: ' || h)::int end from to_char(timestamptz '2024-01-01 00:00+00', 'HH24') h;
  select case when v = 'odd' then 1 else ('user: ' || v)::int end from current_user v;
\endif
begin;
set work_mem = '1111kB';
savepoint s;
reset role;
set search_path = public;
rollback to s;
select case when side = current_user then 1 else (side || ' under ' || current_user)::int end from things;
rollback;
