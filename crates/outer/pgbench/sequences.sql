-- currval and lastval in transactions behind an INSERT.
insert into orders (client) values (:client_id) returning id as mine \gset
select case when v = :mine then 1 else ('currval ' || v || ' for ' || (:mine)::text)::int end from currval('orders_id_seq') v;
select case when v = :mine then 1 else ('lastval ' || v || ' for ' || (:mine)::text)::int end from lastval() v;
