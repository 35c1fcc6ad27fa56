package main

// Settings that a session keeps: SET and RESET, roles, row security, a schema a tenant, startup parameters.

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

func kilobytes(number int) string { return strconv.Itoa(number) + "kB" }

// settings: SET lasts over transactions; rollbacks, savepoints and errors undo it.
func settings() {
	inStep(nil, func(s session, number int, step func()) {
		s.do("set work_mem = '" + kilobytes(1000+number) + "'")
		for range 8 {
			step()
			same(s.show("work_mem"), kilobytes(1000+number), "work_mem in a later transaction")
		}
		undone := errors.New("undone")
		err := pgx.BeginFunc(s.ctx, s.Conn, func(tx pgx.Tx) error {
			s.do("set work_mem = '9MB'")
			return undone
		})
		same(err, undone, "the transaction's end")
		step()
		same(s.show("work_mem"), kilobytes(1000+number), "work_mem after a rollback")
		sound(pgx.BeginFunc(s.ctx, s.Conn, func(tx pgx.Tx) error {
			s.do("set work_mem = '" + kilobytes(2000+number) + "'")
			nested := pgx.BeginFunc(s.ctx, tx, func(pgx.Tx) error {
				s.do("set work_mem = '9MB'")
				s.do("set lock_timeout = '9s'")
				return s.try("select 1 / $1::int", 0)
			})
			fails(nested, "22012", "the savepoint's end")
			s.do("set local statement_timeout = '9s'")
			return nil
		}), "a transaction with a savepoint")
		step()
		same(s.show("work_mem"), kilobytes(2000+number), "work_mem after a savepoint was rolled back")
		same(s.show("lock_timeout"), "0", "what the savepoint had set")
		same(s.show("statement_timeout"), "0", "SET LOCAL after its transaction")
		s.do("select set_config('work_mem', $1, false)", kilobytes(1100+number))
		step()
		same(s.show("work_mem"), kilobytes(1100+number), "work_mem after set_config")
		s.do("reset work_mem")
		s.do("set session characteristics as transaction isolation level serializable")
		step()
		same(s.show("transaction_isolation"), "serializable", "isolation by SESSION CHARACTERISTICS")
		same(s.show("work_mem"), "4MB", "work_mem after RESET")
	})
}

// modes: the session's settings are there by each of the ways in which pgx executes, those without names included.
func modes() {
	ways := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	inStep(nil, func(s session, number int, step func()) {
		s.do("set app.number = '" + strconv.Itoa(number) + "'")
		for turn := range 10 {
			step()
			way := ways[(number+turn)%len(ways)]
			got := s.one("select current_setting('app.number') || $1::text || 'x'", way, strconv.Itoa(turn))
			same(got, fmt.Sprintf("%d%dx", number, turn), "a setting and a parameter by "+way.String())
		}
	})
}

// unnamed: the unnamed statement is parsed and described in one round, and bound in the next.
func unnamed() {
	change := func(config *pgx.ConnConfig) { config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec }
	inStep(change, func(s session, number int, step func()) {
		for turn := range 10 {
			if turn%3 == 0 {
				step()
			}
			sql := fmt.Sprintf("select ($1::int * %d)::text", number+1)
			same(s.one(sql, turn), strconv.Itoa(turn*(number+1)), "by the unnamed statement")
		}
	})
}

// tenants: search_path, role and row security, with the same statement for all.
func tenants() {
	inStep(nil, func(s session, number int, step func()) {
		s.do(fmt.Sprintf("set search_path = tenant_%d, public", number))
		s.do(fmt.Sprintf("set app.tenant = 'tenant %d'", number))
		for range 4 {
			step()
			// Half of the tables have another type, which pgx reads in its binary form.
			var value any
			sound(s.QueryRow(s.ctx, "select value from things").Scan(&value), "things")
			if number%2 == 0 {
				same(value, strconv.Itoa(number), "the value of this tenant")
			} else {
				same(value, int32(number), "the value of this tenant")
			}
		}
		s.do("set role clerk")
		for range 8 {
			step()
			rows, err := s.Query(s.ctx, "select tenant from public.ledger")
			sound(err, "ledger")
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			sound(err, "ledger")
			same(got, []string{fmt.Sprintf("tenant %d", number)}, "the rows of this tenant")
		}
		fails(s.try("insert into counted values (1)"), "42501", "a clerk must not")
		s.do("reset role")
		step()
		same(s.one("select (current_user = session_user)::text"), "true", "users after RESET ROLE")
		s.do("set session authorization clerk")
		step()
		same(s.one("select session_user::text"), "clerk", "session user")
		s.do("set session authorization default")
		step()
		same(s.one("select (session_user <> 'clerk')::text"), "true", "session user after its reset")
	})
}

// startup: runtime parameters are sent in the startup packet, and RESET returns to them.
func startup() {
	change := func(config *pgx.ConnConfig) {
		config.RuntimeParams["search_path"] = "tenant_3"
		config.RuntimeParams["app.tenant"] = "start"
		config.RuntimeParams["timezone"] = "Asia/Tokyo"
		config.RuntimeParams["options"] = "-c work_mem=2222"
		config.RuntimeParams["application_name"] = "from pgx"
	}
	inStep(change, func(s session, number int, step func()) {
		for range 3 {
			step()
			same(s.one("select value::text from things"), "3", "by the search_path of the start")
			same(s.show("work_mem"), "2222kB", "work_mem of the start")
		}
		s.do(fmt.Sprintf("set search_path = tenant_%d", number))
		s.do("set work_mem = '1MB'")
		s.do("set app.tenant = 'other'")
		step()
		same(s.one("select value::text from things"), strconv.Itoa(number), "by the search_path that was set")
		s.do("reset search_path")
		s.do("reset work_mem")
		step()
		same(s.one("select value::text from things"), "3", "by the search_path of the start again")
		same(s.show("work_mem"), "2222kB", "work_mem after RESET")
		s.do("reset all")
		step()
		same(s.show("app.tenant"), "start", "app.tenant after RESET ALL")
		same(s.show("timezone"), "Asia/Tokyo", "timezone after RESET ALL")
		same(s.show("application_name"), "from pgx", "application_name after RESET ALL")
	})
}

// timeZones: SET TIME ZONE and what depends on it.
func timeZones() {
	zones := []string{"Asia/Tokyo", "UTC", "America/Caracas"}
	hours := []string{"09", "00", "20"}
	inStep(nil, func(s session, number int, step func()) {
		s.do("set time zone '" + zones[number%3] + "'")
		for range 6 {
			step()
			same(s.one("select to_char('2024-01-01 00:00+00'::timestamptz, 'HH24')"), hours[number%3], "the hour")
			same(s.PgConn().ParameterStatus("TimeZone"), zones[number%3], "what the driver was told")
		}
	})
}
