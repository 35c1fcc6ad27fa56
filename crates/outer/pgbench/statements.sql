-- PREPARE, EXECUTE and DEALLOCATE in transactions of their own, the name with twelve meanings.
select set_config('app.before', (:client_id)::text, false);
\if :client_id % 2 = 0
  prepare mine as select case when v::int % 2 = 0 then 1 else ('even got ' || v)::int end from current_setting('app.before') v;
\else
  prepare mine as select case when v::int % 2 = 1 then 1 else ('odd got ' || v)::int end from current_setting('app.before') v;
\endif
execute mine;
begin;
execute mine;
rollback;
execute mine;
deallocate mine;
