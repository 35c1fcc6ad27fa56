SELECT pg_catalog.sum(pg_catalog.pg_stat_get_tuples_updated(c.oid) + pg_catalog.pg_stat_get_xact_tuples_updated(c.oid)
                      + CASE WHEN c.rows THEN pg_catalog.pg_stat_get_tuples_inserted(c.oid)
                                              + pg_catalog.pg_stat_get_xact_tuples_inserted(c.oid)
                                              + pg_catalog.pg_stat_get_tuples_deleted(c.oid)
                                              + pg_catalog.pg_stat_get_xact_tuples_deleted(c.oid)
                             ELSE 0 END) AS changes,
       pg_catalog.current_setting('track_counts') AS counted
  FROM (VALUES ('pg_catalog.pg_proc'::pg_catalog.regclass, true), ('pg_catalog.pg_trigger', true),
               ('pg_catalog.pg_rewrite', true), ('pg_catalog.pg_constraint', true), ('pg_catalog.pg_attrdef', true),
               ('pg_catalog.pg_policy', true), ('pg_catalog.pg_event_trigger', true), ('pg_catalog.pg_cast', true),
               ('pg_catalog.pg_operator', true), ('pg_catalog.pg_inherits', true), ('pg_catalog.pg_extension', true),
               ('pg_catalog.pg_sequence', true), ('pg_catalog.pg_class', false), ('pg_catalog.pg_type', false)
       ) c(oid, rows)
