package main

// Objects that a session keeps: prepared statements, temporary tables, cursors, locks, notifications; and a pool of pgx's.

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var checks = []check{
	{"settings", settings}, {"modes", modes}, {"unnamed", unnamed}, {"tenants", tenants}, {"startup", startup},
	{"time_zones", timeZones}, {"prepared", prepared}, {"changed_table", changedTable}, {"sql_prepare", sqlPrepare},
	{"batches", batches}, {"copying", copying}, {"temporary_tables", temporaryTables}, {"held_cursors", heldCursors},
	{"advisory_locks", advisoryLocks}, {"listen", listen}, {"current_values", currentValues},
	{"discarding_pool", discardingPool}, {"cancelled", cancelled},
}

func prepare() {
	alone(func(s session) {
		s.do(`create role clerk;
			create table ledger (tenant text, amount int);
			alter table ledger enable row level security;
			create policy own on ledger using (tenant = current_setting('app.tenant'));
			grant all on ledger to clerk;
			create table counted (n int);
			create table orders (id serial, session int)`)
		for number := range sessions {
			kind := []string{"text", "int"}[number%2]
			s.do(fmt.Sprintf(`insert into ledger values ('tenant %[1]d', %[1]d); create schema tenant_%[1]d;
				create table tenant_%[1]d.things (value %[2]s); insert into tenant_%[1]d.things values ('%[1]d')`, number, kind))
		}
	})
}

// prepared: more statements than a server keeps, over many transactions, with errors between.
func prepared() {
	inStep(nil, func(s session, number int, step func()) {
		_, err := s.Prepare(s.ctx, "mine", fmt.Sprintf("select ($1::int + %d)::text", number*1000))
		sound(err, "a statement prepared on purpose")
		for turn := range 5 {
			step()
			for kind := range 40 {
				sql := fmt.Sprintf("select ($1::int + %d)::text || $2::text", kind)
				same(s.one(sql, turn, "/"+strconv.Itoa(number)), fmt.Sprintf("%d/%d", turn+kind, number), "by the cache")
			}
			same(s.one("mine", turn), strconv.Itoa(turn+number*1000), "by the name of one's own")
			fails(s.try("select 1 / $1::int", 0), "22012", "division")
		}
		sound(s.Deallocate(s.ctx, "mine"), "Deallocate")
		sound(s.DeallocateAll(s.ctx), "DeallocateAll")
		step()
		same(s.one("select ($1::int + 0)::text || $2::text", 1, "x"), "1x", "after DeallocateAll")
	})
}

// changedTable: after ALTER TABLE the statement fails once, as PostgreSQL has it, or shows the new column.
func changedTable() {
	alone(func(s session) { s.do("create table shape (a int); insert into shape values (1)") })
	inStep(nil, func(s session, number int, step func()) {
		shape := func() ([]any, error) {
			rows, err := s.Query(s.ctx, "select * from shape")
			if err != nil {
				return nil, err
			}
			return pgx.CollectOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		}
		for range 3 {
			got, err := shape()
			sound(err, "the old shape")
			same(got, []any{int32(1)}, "the old shape")
		}
		step()
		if number == 0 {
			s.do("alter table shape add column b text default 'new'")
		}
		step()
		got, err := shape()
		if err != nil {
			fails(err, "0A000", "the first time after the change")
			got, err = shape()
		}
		sound(err, "the new shape")
		same(got, []any{int32(1), "new"}, "the new shape")
	})
}

// sqlPrepare: PREPARE and EXECUTE, the name with twelve meanings.
func sqlPrepare() {
	inStep(nil, func(s session, number int, step func()) {
		s.do(fmt.Sprintf("prepare mine (int) as select ($1 + %d)::text", number*100))
		for turn := range 6 {
			step()
			got := s.one(fmt.Sprintf("execute mine(%d)", turn), pgx.QueryExecModeSimpleProtocol)
			same(got, strconv.Itoa(number*100+turn), "EXECUTE")
		}
		s.do("deallocate mine")
		step()
		fails(s.try("execute mine(1)", pgx.QueryExecModeSimpleProtocol), "26000", "after DEALLOCATE")
	})
}

// batches: pipelines of many statements, one of which may fail, with a SET among them.
func batches() {
	inStep(nil, func(s session, number int, step func()) {
		for turn := range 4 {
			step()
			batch := &pgx.Batch{}
			batch.Queue("set work_mem = '" + kilobytes(1000+number) + "'")
			for n := range 30 {
				batch.Queue("select ($1::int * 2)::text", n).QueryRow(func(row pgx.Row) error {
					var text string
					err := row.Scan(&text)
					same(text, strconv.Itoa(n*2), "a row of a batch")
					return err
				})
			}
			sound(s.SendBatch(s.ctx, batch).Close(), "a batch")
			step()
			same(s.show("work_mem"), kilobytes(1000+number), "work_mem set in a batch")
			bad := &pgx.Batch{}
			bad.Queue("set work_mem = '9MB'")
			bad.Queue("select 1 / $1::int", turn-turn)
			fails(s.SendBatch(s.ctx, bad).Close(), "22012", "a batch that fails")
			step()
			same(s.show("work_mem"), kilobytes(1000+number), "work_mem set in a batch that failed")
		}
	})
}

// copying: CopyFrom by the binary format, into the tenant's own table.
func copying() {
	alone(func(s session) {
		for number := range sessions {
			s.do(fmt.Sprintf("create table tenant_%d.copied (n int, t text)", number))
		}
	})
	inStep(nil, func(s session, number int, step func()) {
		s.do(fmt.Sprintf("set search_path = tenant_%d", number))
		for turn := range 3 {
			step()
			source := pgx.CopyFromSlice(500, func(n int) ([]any, error) { return []any{n, strconv.Itoa(number)}, nil })
			count, err := s.CopyFrom(s.ctx, pgx.Identifier{"copied"}, []string{"n", "t"}, source)
			sound(err, "CopyFrom")
			same(count, int64(500), "rows copied")
			step()
			got := s.one("select format('%s %s %s', count(*), min(t), max(t)) from copied")
			same(got, fmt.Sprintf("%d %d %d", 500*(turn+1), number, number), "the table")
		}
	})
}

// temporaryTables: of one name in half of the sessions; the others do not see them.
func temporaryTables() {
	atOnce(func(s session, number int) {
		if number%2 == 1 {
			for range 8 {
				same(s.one("select coalesce(to_regclass('scratch')::text, 'none')"), "none", "somebody else's table")
			}
			return
		}
		s.do(fmt.Sprintf("create temp table scratch as select %d as n", number))
		for turn := range 4 {
			s.do("insert into scratch values ($1)", turn)
		}
		same(s.one("select sum(n)::text from scratch"), strconv.Itoa(number+6), "the temporary table")
		s.do("drop table scratch")
		same(s.one("select coalesce(to_regclass('scratch')::text, 'none')"), "none", "after DROP")
	})
}

// heldCursors: WITH HOLD, fetched outside of transactions.
func heldCursors() {
	atOnce(func(s session, number int) {
		s.do(fmt.Sprintf("declare walk cursor with hold for select (%d + n)::text from generate_series(1, 20) n", number))
		for turn := 1; turn <= 20; turn++ {
			same(s.one("fetch 1 from walk", pgx.QueryExecModeSimpleProtocol), strconv.Itoa(number+turn), "FETCH")
		}
		s.do("close walk")
		fails(s.try("fetch 1 from walk", pgx.QueryExecModeSimpleProtocol), "34000", "after CLOSE")
	})
}

// advisoryLocks: a lock around two transactions that nobody may come between.
func advisoryLocks() {
	alone(func(s session) { s.do("truncate counted; insert into counted values (0)") })
	atOnce(func(s session, number int) {
		for range 3 {
			s.do("select pg_advisory_lock($1)", int64(1)<<40)
			seen := s.one("select n::text from counted")
			s.do("update counted set n = $1::int + 1", seen)
			same(s.one("select pg_advisory_unlock($1)::text", int64(1)<<40), "true", "the unlock")
		}
		// The end of the session gives this one back.
		s.do("select pg_advisory_lock_shared(8)")
	})
	alone(func(s session) {
		same(s.one("select n::text from counted"), strconv.Itoa(3*sessions), "what was counted under the lock")
		s.do("select pg_advisory_lock(8)")
	})
}

// listen: WaitForNotification, and the sender's pid as the sender knows it.
func listen() {
	var pids [sessions]uint32
	inStep(nil, func(s session, number int, step func()) {
		pids[number] = s.PgConn().PID()
		s.do(fmt.Sprintf("listen channel_%d", number))
		step()
		before, next := (number+sessions-1)%sessions, (number+1)%sessions
		for turn := range 3 {
			s.do("select pg_notify($1, $2)", fmt.Sprintf("channel_%d", next), fmt.Sprintf("%d/%d", number, turn))
			limited, cancel := context.WithTimeout(s.ctx, patience)
			told, err := s.WaitForNotification(limited)
			cancel()
			sound(err, "WaitForNotification")
			got := fmt.Sprintf("%s %s %d", told.Channel, told.Payload, told.PID)
			same(got, fmt.Sprintf("channel_%d %d/%d %d", number, before, turn, pids[before]), "channel, payload, pid")
			step()
		}
		s.do("unlisten *")
		step()
		same(s.one("select count(*)::text from pg_listening_channels()"), "0", "channels after UNLISTEN")
	})
}

// currentValues: currval and lastval are the session's own, once somebody has asked for one.
func currentValues() {
	alone(func(s session) { fails(s.try("select lastval()"), "55000", "lastval by the first who asks") })
	atOnce(func(s session, number int) {
		if number%3 == 0 {
			fails(s.try("select lastval()"), "55000", "lastval without nextval")
		}
		for range 5 {
			given := s.one("insert into orders (session) values ($1) returning id::text", number)
			same(s.one("select currval('orders_id_seq')::text"), given, "currval in a later transaction")
			same(s.one("select lastval()::text"), given, "lastval in a later transaction")
		}
	})
}

// discardingPool: pgx's pool with hooks that set a tenant when a connection is taken and say DISCARD ALL when it is back.
func discardingPool() {
	config, err := pgxpool.ParseConfig(url)
	sound(err, "the URL")
	config.MaxConns = sessions
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "set timezone = 'UTC'")
		return err
	}
	config.AfterRelease = func(c *pgx.Conn) bool {
		// Its names are gone with DISCARD ALL, which pgx must be told: so they are deallocated by its own call first.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if c.DeallocateAll(ctx) != nil {
			return false
		}
		_, err := c.Exec(ctx, "discard all")
		return err == nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	sound(err, "the pool")
	defer pool.Close()
	checkout := func(ctx context.Context, number int) {
		taken, err := pool.Acquire(ctx)
		sound(err, "Acquire")
		// Also if the check fails, or the pool would wait for it for ever.
		defer taken.Release()
		s := session{taken.Conn(), ctx}
		fresh := strings.Join([]string{s.show("work_mem"), s.show("search_path"), s.one("select current_user::text")}, " ")
		same(fresh, "4MB \"$user\", public "+s.one("select session_user::text"), "a fresh checkout")
		s.do(fmt.Sprintf("set search_path = tenant_%d, public; set role clerk; set work_mem = '1MB'", number))
		s.do("select set_config('app.tenant', $1, false)", fmt.Sprintf("tenant %d", number))
		same(s.one("select tenant from ledger"), fmt.Sprintf("tenant %d", number), "the row of this tenant")
	}
	together(func(ctx context.Context, number int) {
		for range 6 {
			checkout(ctx, number)
		}
	})
}

// cancelled: a context's end cancels the statement and closes the connection; the session's state goes with it.
func cancelled() {
	atOnce(func(s session, number int) {
		s.do("set work_mem = '" + kilobytes(1000+number) + "'")
		limited, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		_, err := s.Exec(limited, "select pg_sleep(3600)")
		cancel()
		same(err != nil && s.IsClosed(), true, "the connection after its context's end")
		again := connect(s.ctx, nil)
		defer again.Close(context.Background())
		for range 3 {
			same(again.show("work_mem"), "4MB", "work_mem in a new session")
		}
	})
}
