SELECT pg_catalog.count(*) AS rows,
       pg_catalog.sum(pg_catalog.hashoidextended(x.oid, pg_catalog.hashint8extended(x.xmin::pg_catalog.text::pg_catalog.int8,
                                                                                    x.part))) AS hash
  FROM (SELECT 1 AS part, p.oid, p.xmin FROM pg_catalog.pg_proc p WHERE p.oid >= 16384
  UNION ALL
        SELECT 2, c.oid, c.xmin FROM pg_catalog.pg_class c
         WHERE c.oid >= 16384 AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S')
  UNION ALL
        SELECT 3, g.oid, g.xmin FROM pg_catalog.pg_trigger g WHERE g.tgfoid >= 16384
  UNION ALL
        SELECT 4, w.oid, w.xmin FROM pg_catalog.pg_rewrite w
         WHERE w.oid >= 16384
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = w.ev_class AND c.relpersistence = 't')
  UNION ALL
        SELECT 5, k.oid, k.xmin FROM pg_catalog.pg_constraint k
         WHERE k.oid >= 16384 AND k.contype IN ('c', 'f')
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = k.conrelid AND c.relpersistence = 't')
  UNION ALL
        SELECT 6, d.oid, d.xmin FROM pg_catalog.pg_attrdef d
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = d.adrelid AND c.relpersistence = 't')
  UNION ALL
        SELECT 7, y.oid, y.xmin FROM pg_catalog.pg_policy y
  UNION ALL
        SELECT 8, e.oid, e.xmin FROM pg_catalog.pg_event_trigger e
  UNION ALL
        SELECT 9, x.oid, x.xmin FROM pg_catalog.pg_cast x WHERE x.oid >= 16384
  UNION ALL
        SELECT 10, o.oid, o.xmin FROM pg_catalog.pg_operator o WHERE o.oid >= 16384
  UNION ALL
        SELECT 11, t.oid, t.xmin FROM pg_catalog.pg_type t
         WHERE t.oid >= 16384 AND t.typtype IN ('b', 'd', 'r') AND t.typelem = 0
  UNION ALL
        SELECT 12, i.inhrelid, i.xmin FROM pg_catalog.pg_inherits i
  UNION ALL
        SELECT 13, e.oid, e.xmin FROM pg_catalog.pg_extension e
       ) x
