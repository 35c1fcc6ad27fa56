// pgx with its defaults, in twelve sessions that keep state on purpose.
//
// How it is called and what it prints: ../python/sessions.py. By default pgx prepares every statement under a name of its
// own and keeps 512; its pool gives connections back as they are.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const sessions = 12

// Whoever waits longer waits for ever.
const patience = 120 * time.Second

var url string

// different is what a check ends with: something is not as a direct connection shows it.
type different struct{ what string }

func (d different) Error() string { return d.what }

func fail(form string, values ...any) {
	panic(different{fmt.Sprintf(form, values...)})
}

func same(got, expected any, what string) {
	if !reflect.DeepEqual(got, expected) {
		fail("%s: got %#v, expected %#v", what, got, expected)
	}
}

func sound(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

// fails: that an error of PostgreSQL came, with this SQLSTATE.
func fails(err error, sqlstate, what string) {
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		fail("%s: got %v, expected SQLSTATE %s", what, err, sqlstate)
	}
	same(told.Code, sqlstate, what)
}

// session is a connection whose failures end the check.
type session struct {
	*pgx.Conn
	ctx context.Context
}

func connect(ctx context.Context, change func(*pgx.ConnConfig)) session {
	config, err := pgx.ParseConfig(url)
	sound(err, "the URL")
	if change != nil {
		change(config)
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	sound(err, "connecting")
	return session{connection, ctx}
}

func (s session) do(sql string, values ...any) {
	_, err := s.Exec(s.ctx, sql, values...)
	sound(err, sql)
}

func (s session) try(sql string, values ...any) error {
	_, err := s.Exec(s.ctx, sql, values...)
	return err
}

// one is the only column of the only row, as text.
func (s session) one(sql string, values ...any) string {
	var text string
	sound(s.QueryRow(s.ctx, sql, values...).Scan(&text), sql)
	return text
}

func (s session) show(name string) string { return s.one("select current_setting($1)", name) }

// step returns when all sessions are there.
type step struct {
	lock    sync.Mutex
	waiting int
	open    chan struct{}
}

func (s *step) wait(ctx context.Context) {
	s.lock.Lock()
	open := s.open
	s.waiting++
	if s.waiting == sessions {
		s.waiting, s.open = 0, make(chan struct{})
		close(open)
	}
	s.lock.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		panic(ctx.Err())
	}
}

// inStep: all finish a step before anybody begins the next. Not for state that may keep a server while its session rests.
func inStep(change func(*pgx.ConnConfig), talk func(s session, number int, step func())) {
	turn := &step{open: make(chan struct{})}
	together(func(ctx context.Context, number int) {
		s := connect(ctx, change)
		defer s.Close(context.Background())
		talk(s, number, func() { turn.wait(ctx) })
	})
}

// atOnce: everybody at full speed.
func atOnce(talk func(s session, number int)) {
	together(func(ctx context.Context, number int) {
		s := connect(ctx, nil)
		defer s.Close(context.Background())
		talk(s, number)
	})
}

func alone(talk func(s session)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := connect(ctx, nil)
	defer s.Close(context.Background())
	talk(s)
}

// together runs all sessions; the first failure ends them all and is the check's.
func together(talk func(ctx context.Context, number int)) {
	limited, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	ctx, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	var all sync.WaitGroup
	for number := range sessions {
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() {
				if failure := recover(); failure != nil {
					cancel(different{fmt.Sprintf("session %d: %v", number, failure)})
				}
			}()
			talk(ctx, number)
		}()
	}
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		panic(cause)
	}
}

type check struct {
	name string
	run  func()
}

func (c check) holds() (held bool) {
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("DIFFERENT %s: %v\n", c.name, failure)
			held = false
		}
	}()
	c.run()
	return true
}

func wanted(named []string) []check {
	var chosen, rest []check
	for _, c := range checks {
		if slices.Contains(named, c.name) {
			chosen = append(chosen, c)
		}
		if !slices.Contains(named, "-"+c.name) {
			rest = append(rest, c)
		}
	}
	for _, name := range named {
		known := func(c check) bool { return c.name == strings.TrimPrefix(name, "-") }
		if !slices.ContainsFunc(checks, known) {
			fmt.Println("no such check:", name)
			os.Exit(1)
		}
	}
	if len(chosen) > 0 {
		return chosen
	}
	return rest
}

func main() {
	if os.Args[1] == "logins" {
		logins()
		return
	}
	if os.Args[1] == "console" {
		console(os.Args[2], os.Args[3:])
		return
	}
	url = os.Args[1]
	chosen := wanted(os.Args[2:])
	time.AfterFunc(2*time.Minute, func() { panic("hangs") })
	if !(check{"prepare", prepare}).holds() {
		os.Exit(1)
	}
	for _, c := range chosen {
		begun := time.Now()
		if !c.holds() {
			os.Exit(1)
		}
		fmt.Printf("same %s %.2f s\n", c.name, time.Since(begun).Seconds())
	}
	fmt.Printf("pgx: %d checks, %d sessions\n", len(chosen), sessions)
}
