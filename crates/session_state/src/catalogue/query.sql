WITH
own AS MATERIALIZED (
  SELECT p.proname::pg_catalog.text AS name, p.oid::pg_catalog.text AS mark
    FROM pg_catalog.pg_proc p
   WHERE p.oid < 16384
     AND (p.proname ~ '^pg_(try_)?advisory_(lock|unlock)'
       OR p.proname ~ '^pg_(replication_origin_(session|xact)|backup_st|st(art|op)_backup|prepared_statement|cursor)'
       OR p.proname ~ '^pg_(create|copy|drop)_((physical|logical)_)?replication_slot'
       OR p.proname ~ '^(query|table|schema|database)_to_xml'
       OR p.proname IN ('set_config', 'nextval', 'setval', 'currval', 'lastval', 'setseed', 'pg_backend_pid',
                        'pg_notify', 'pg_listening_channels', 'pg_my_temp_schema', 'ts_stat', 'ts_rewrite'))
),
relation AS MATERIALIZED (
  SELECT c.oid, c.relname::pg_catalog.text AS name, c.relkind AS kind
    FROM pg_catalog.pg_class c
   WHERE c.oid >= 16384 AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')
),
routine AS MATERIALIZED (
  SELECT p.oid, p.proname::pg_catalog.text AS name, l.lanname::pg_catalog.text AS language, p.prosrc AS source,
         CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_type t
                            WHERE t.oid = p.proargtypes[0] AND (t.typtype IN ('c', 'd') OR t.typcategory = 'P'))
              THEN 'n' ELSE 'c' END AS land,
         CASE WHEN l.lanname = 'sql' AND p.prosrc = '' THEN pg_catalog.to_jsonb(p) ->> 'prosqlbody' END AS body,
         p.proargdefaults::pg_catalog.text AS defaults
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
   WHERE p.oid >= 16384 AND p.prokind <> 'a'
),
owner AS MATERIALIZED (
  SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass AS class, w.oid, c.name,
         CASE WHEN w.ev_type = '1' AND c.kind <> 'm' THEN 's' ELSE 'w' END AS land,
         pg_catalog.concat(w.ev_action::pg_catalog.text, w.ev_qual::pg_catalog.text) AS tree
    FROM pg_catalog.pg_rewrite w JOIN relation c ON c.oid = w.ev_class
  UNION ALL
  SELECT 'pg_catalog.pg_attrdef', d.oid, c.name,
         CASE a.attgenerated WHEN 'v' THEN 'n' WHEN 's' THEN 'w' ELSE 'f' END, d.adbin::pg_catalog.text
    FROM pg_catalog.pg_attrdef d JOIN relation c ON c.oid = d.adrelid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  UNION ALL
  SELECT 'pg_catalog.pg_constraint', k.oid, c.name, 'w', k.conbin::pg_catalog.text
    FROM pg_catalog.pg_constraint k JOIN relation c ON c.oid = k.conrelid
   WHERE k.contype = 'c'
  UNION ALL
  SELECT 'pg_catalog.pg_constraint', k.oid, t.typname::pg_catalog.text, 'n', k.conbin::pg_catalog.text
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_type t ON t.oid = k.contypid
   WHERE k.contype = 'c'
  UNION ALL
  SELECT 'pg_catalog.pg_policy', y.oid, c.name, 'n',
         pg_catalog.concat(y.polqual::pg_catalog.text, y.polwithcheck::pg_catalog.text)
    FROM pg_catalog.pg_policy y JOIN relation c ON c.oid = y.polrelid
  UNION ALL
  SELECT 'pg_catalog.pg_trigger', g.oid, c.name, 'w', g.tgqual::pg_catalog.text
    FROM pg_catalog.pg_trigger g JOIN relation c ON c.oid = g.tgrelid
   WHERE g.tgfoid >= 16384
  UNION ALL
  SELECT 'pg_catalog.pg_class', c.oid, c.name, CASE WHEN c.kind = 'p' THEN 'w' ELSE 'n' END, NULL
    FROM relation c
  UNION ALL
  SELECT 'pg_catalog.pg_class', i.indexrelid, c.name, 'w', NULL
    FROM pg_catalog.pg_index i JOIN relation c ON c.oid = i.indrelid
   WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
  UNION ALL
  SELECT 'pg_catalog.pg_type', t.oid, t.typname::pg_catalog.text, 'n', t.typdefaultbin::pg_catalog.text
    FROM pg_catalog.pg_type t
   WHERE t.oid >= 16384 AND t.typtype <> 'c'
  UNION ALL
  SELECT 'pg_catalog.pg_proc', f.oid, f.name, f.land, pg_catalog.concat(f.body, f.defaults)
    FROM routine f
),
target AS (
  SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass AS class, p.oid, p.proname::pg_catalog.text AS name
    FROM pg_catalog.pg_proc p WHERE p.oid >= 16384
  UNION ALL
  SELECT 'pg_catalog.pg_operator', o.oid, p.proname
    FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode WHERE o.oid >= 16384
  UNION ALL
  SELECT 'pg_catalog.pg_type', t.oid, t.typname FROM pg_catalog.pg_type t WHERE t.oid >= 16384
  UNION ALL
  SELECT 'pg_catalog.pg_class', c.oid, c.name FROM relation c
),
edge(how, name, target) AS (
  SELECT o.land || CASE WHEN d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass THEN 'k'
                        WHEN d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass THEN 'r'
                        WHEN d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass THEN 'k'
                        WHEN d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass THEN 'r'
                        ELSE 'a' END, o.name, t.name
    FROM pg_catalog.pg_depend d
    JOIN owner o ON o.class = d.classid AND o.oid = d.objid
    JOIN target t ON t.class = d.refclassid AND t.oid = d.refobjid
   WHERE d.objid >= 16384 AND d.refobjid >= 16384
     AND (d.refclassid <> 'pg_catalog.pg_class'::pg_catalog.regclass
       OR d.classid = ANY ('{pg_catalog.pg_rewrite, pg_catalog.pg_policy, pg_catalog.pg_proc}'::pg_catalog.regclass[]))
  UNION
  SELECT o.land || 'a', o.name, own.name
    FROM owner o
   CROSS JOIN pg_catalog.unnest(pg_catalog.string_to_array(o.tree, ':funcid ')) AS piece(start)
    JOIN own ON own.mark = pg_catalog.split_part(piece.start, ' ', 1)
   -- set_config of a literal, until the transaction's end, is nothing to the session.
   WHERE NOT (own.name = 'set_config' AND piece.start ~
     ':args \(\{CONST [^}]*\} \{[^}]*\} \{CONST :consttype 16 [^}]*:constvalue 1 \[ 1 0 0 0 0 0 0 0 \]\}\)')
  UNION
  SELECT o.land || 'a', o.name, c.relname
    FROM owner o
   CROSS JOIN pg_catalog.unnest(pg_catalog.string_to_array(o.tree, ':relid ')) AS piece(start)
    JOIN pg_catalog.pg_class c ON c.relname IN ('pg_prepared_statements', 'pg_cursors') AND c.oid < 16384
     AND c.oid::pg_catalog.text = pg_catalog.split_part(piece.start, ' ', 1)
   WHERE o.class = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
  UNION
  -- NOTIFY is the only utility statement that a rule may have.
  SELECT o.land || 'a', o.name, 'pg_notify'
    FROM owner o
   WHERE o.class = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
     AND pg_catalog.strpos(o.tree, ':utilityStmt {NOTIFY') > 0
  UNION
  SELECT 'wa', c.name, p.proname
    FROM pg_catalog.pg_trigger g JOIN relation c ON c.oid = g.tgrelid
    JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
   WHERE g.tgfoid >= 16384
  UNION
  SELECT 'fa', c.name, 'nextval'
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class q ON q.oid = d.objid AND q.relkind = 'S'
    JOIN relation c ON c.oid = d.refobjid
   WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
     AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype = 'i'
  UNION
  SELECT 'sa', parent.name, child.name
    FROM pg_catalog.pg_inherits i JOIN relation parent ON parent.oid = i.inhparent
    JOIN relation child ON child.oid = i.inhrelid
  UNION
  SELECT 'wa', parent.name, child.name
    FROM pg_catalog.pg_constraint k JOIN relation parent ON parent.oid = k.confrelid
    JOIN relation child ON child.oid = k.conrelid
   WHERE k.contype = 'f' AND (k.confdeltype IN ('c', 'n', 'd') OR k.confupdtype IN ('c', 'n', 'd'))
  UNION
  SELECT 'ca', p.proname, f.proname
    FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid
   CROSS JOIN pg_catalog.unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
                                      a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::pg_catalog.oid[]) AS part(oid)
    JOIN pg_catalog.pg_proc f ON f.oid = part.oid
   WHERE a.aggfnoid >= 16384
  UNION
  SELECT CASE WHEN t.oid >= 16384 THEN 'nk' ELSE 'ek' END, CASE WHEN t.oid >= 16384 THEN t.typname ELSE '' END, p.proname
    FROM pg_catalog.pg_cast x JOIN pg_catalog.pg_proc p ON p.oid = x.castfunc
   CROSS JOIN pg_catalog.unnest(ARRAY[x.castsource, x.casttarget]) AS side(oid)
    JOIN pg_catalog.pg_type t ON t.oid = side.oid
   WHERE x.castfunc >= 16384 AND (t.oid >= 16384 OR (x.castsource < 16384 AND x.casttarget < 16384))
  UNION
  SELECT 'ek', '', p.proname
    FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
   WHERE o.oprcode >= 16384
  UNION
  SELECT 'ek', '', p.proname
    FROM pg_catalog.pg_amproc m JOIN pg_catalog.pg_proc p ON p.oid = m.amproc
   WHERE m.amproc >= 16384
  UNION
  SELECT 'da', '', p.proname
    FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid
   WHERE e.evtenabled <> 'D' AND e.evtevent <> 'login'
)
SELECT 'edge' AS what, edge.how, edge.name, edge.target AS of FROM edge WHERE edge.name <> edge.target
UNION ALL
SELECT f.language, f.land, f.name, CASE WHEN pg_catalog.octet_length(f.source) <= 131072 THEN f.source END
  FROM routine f
 WHERE f.language IN ('plpgsql', 'sql', 'internal') AND f.source <> ''
UNION ALL
SELECT DISTINCT CASE f.language WHEN 'c' THEN 'c' ELSE 'other' END, f.land, f.name,
       CASE WHEN f.language = 'c' THEN x.extname::pg_catalog.text
            WHEN f.source OPERATOR(pg_catalog.~) '(^|[^a-zA-Z0-9_])(_SHARED|GD|SD|global|globalThis)([^a-zA-Z0-9_]|$)' THEN 'keeps' END
  FROM routine f
  LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = f.oid
   AND d.deptype = 'e'
  LEFT JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
 WHERE f.language NOT IN ('plpgsql', 'sql', 'internal')
