-- Statements prepared by name, executed in transactions of many kinds, with parameters of several types.
\set n random(1, 1000000)
select case when v = :n + 1 then 1 else ('got ' || v || ' after ' || (:n)::text)::int end from generate_series(:n + 1, :n + 1) v;
begin;
select count(*)::int as rows from generate_series(1, 10 + :client_id) \gset
end;
select case when :rows = 10 + :client_id then 1 else ((:rows)::text || ' rows from ' || v)::int end from current_setting('server_version') v;
begin isolation level serializable read only;
select case when v = 'serializable' then 1 else v::int end from current_setting('transaction_isolation') v;
commit;
select case when v = 'read committed' then 1 else v::int end from current_setting('transaction_isolation') v;
select case when v = 'off' then 1 else ('read only: ' || v)::int end from current_setting('transaction_read_only') v;
\startpipeline
select 1;
select (:n)::int;
select (:client_id)::text;
\endpipeline
