//! The script of a run: who does what next, read off the fuzzer's bytes.

use std::time::Duration;

use machine::mail::Stop;
use machine::{Hangup, Look, Mail, ToWorker};
use units::WorkerId;
use wire::backend::{self, Authentication, ErrorResponse, Status};
use wire::frontend::{self, Target};
use wire::sqlstate;

use super::World;
use super::client::{Client, SEATS};
use super::setting::{self, DATABASES, USERS};
use super::socket::Socket;
use crate::tape::Tape;

/// Statements in the language of the simulator's PostgreSQL.
const TEXTS: [&str; 16] = [
    "select 1 3",
    "begin",
    "commit",
    "rollback",
    "fail",
    "copyin",
    "copyout 2 3",
    "sleep 5",
    "discard all",
    "deallocate all",
    "",
    "temporary",
    "vacuum",
    "select 3 900",
    "begin;select 1 1",
    "select 1 1;select 1 2;commit",
];

/// Statements that change what marks tell.
const SETS: [&str; 4] =
    ["set TimeZone = 'Asia/Tokyo'", "set application_name = 'psql'", "set client_encoding = 'LATIN1'", "set a = '1'"];

const NAMES: [&[u8]; 4] = [b"", b"s1", b"s2", b"a longer name"];

pub(super) struct WorkerScript<'a> {
    tape: Tape<'a>,
    world: World,
}

impl<'a> WorkerScript<'a> {
    /// A world that is set up as the beginning says.
    pub(super) fn new(bytes: &'a [u8]) -> WorkerScript<'a> {
        let mut tape = Tape::new(bytes);
        let settings = setting::settings(tape.byte(), tape.byte());
        WorkerScript { tape, world: World::new(settings) }
    }

    /// The world comes to its end, which must leave nothing.
    pub(super) fn end(self) {
        self.world.end();
    }

    pub(super) fn play(&mut self) {
        while !self.tape.is_over() {
            let act = self.tape.byte();
            let who = usize::from(act >> 5);
            match act & 31 {
                what @ 0..=17 => self.client(who % SEATS, what),
                what @ 18..=25 => self.server(who, what),
                what => self.surroundings(who, what),
            }
            self.world.settle();
        }
    }

    fn client(&mut self, seat: usize, what: u8) {
        if what == 0 {
            return self.connect(seat);
        }
        let Some(mut client) = self.world.clients.take(seat) else { return };
        if what == 1 {
            return self.leave(&client);
        }
        let mut out = Vec::new();
        match what {
            2 => {
                out.extend_from_slice(self.tape.counted());
                client.drop_marks();
            }
            _ => self.message(&mut client, what, &mut out),
        }
        self.world.sockets[client.socket()].say(&out);
        self.world.clients.put(seat, client);
    }

    fn message(&mut self, client: &mut Client, what: u8, out: &mut Vec<u8>) {
        let more = self.tape.byte();
        let (name, other) = (NAMES[usize::from(more & 3)], NAMES[usize::from(more >> 2 & 3)]);
        let target = if more & 0x10 == 0 { Target::Statement } else { Target::Portal };
        match what {
            3 => {
                let text = statement(TEXTS[usize::from(more & 15)], client);
                frontend::Query { text: text.as_bytes() }.encode(out);
            }
            4 => {
                client.drop_marks();
                frontend::Query { text: SETS[usize::from(more & 3)].as_bytes() }.encode(out);
            }
            5 => {
                // A text that clients share carries no mark; Bind does.
                let query = TEXTS[usize::from(more >> 2 & 15)].as_bytes();
                frontend::Parse { name, query, types: frontend::Parse::NO_TYPES }.encode(out);
            }
            6 => {
                let mark = client.mark().map(|mark| mark.text());
                frontend::Bind::encode(out, other, name, mark.as_ref().map(|mark| Some(mark.as_bytes())));
            }
            7 => frontend::Describe { target, name }.encode(out),
            8 => frontend::Execute { portal: name, rows_max: i32::from(more >> 2 & 1) }.encode(out),
            9 => frontend::Close { target, name }.encode(out),
            10 => frontend::encode_sync(out),
            11 => frontend::encode_flush(out),
            12 => frontend::encode_copy_data(out, &vec![more; usize::from(more)]),
            13 if more & 1 == 0 => frontend::encode_copy_done(out),
            13 => frontend::CopyFail { message: b"no" }.encode(out),
            14 => {
                let mark = client.mark().map_or_else(String::new, |mark| mark.text());
                wire::message(out, frontend::tag::FUNCTION_CALL, |out| out.extend_from_slice(mark.as_bytes()));
            }
            15 => self.arbitrary(client, more, out),
            16 => large(client, more, out),
            _ => frontend::encode_terminate(out),
        }
    }

    /// A message of any tag and any body, sound as far as its length goes, or nearly.
    fn arbitrary(&mut self, client: &mut Client, message: u8, out: &mut Vec<u8>) {
        client.drop_marks();
        let body = self.tape.counted();
        wire::message(out, message, |out| out.extend_from_slice(body));
    }

    fn connect(&mut self, seat: usize) {
        let choice = self.tape.byte();
        let user = USERS[usize::from(choice >> 2 & 1)].as_bytes();
        let database = DATABASES[usize::from(choice & 3)].as_bytes();
        let is_marked = choice & 8 == 0;
        let startup = [(&b"user"[..], user), (b"database", database), (b"TimeZone", b"Asia/Tokyo")];
        self.world.connect(seat, is_marked, if is_marked { &startup[..2] } else { &startup });
    }

    /// The client's connection breaks, or is closed behind what it said.
    fn leave(&mut self, client: &Client) {
        let why = if self.tape.byte() & 1 == 0 { Hangup::Broken } else { Hangup::Closed };
        self.world.hang_up(client.socket(), why);
    }

    /// The servers that are there, by turns.
    fn server(&mut self, which: usize, what: u8) {
        let servers = self.world.sockets.all_that(|socket| socket.id.is_some() && !socket.is_client());
        if servers.is_empty() {
            return;
        }
        let index = servers[which % servers.len()];
        match what {
            18 => {
                let stands = self.tape.byte_is_even();
                self.world.open(index, stands);
            }
            19 => drop(self.world.answer(index)),
            20 => self.world.postgres.wake(&mut self.world.sockets[index]),
            21 => {
                let why = if self.tape.byte_is_even() { Hangup::Broken } else { Hangup::Closed };
                self.world.hang_up(index, why);
            }
            22 => {
                let bytes = self.tape.counted();
                self.lie(index, bytes);
            }
            23 => {
                let (message, body, mut out) = (self.tape.byte(), self.tape.counted(), Vec::new());
                wire::message(&mut out, message, |out| out.extend_from_slice(body));
                self.lie(index, &out);
            }
            24 => {
                let out = typical(self.tape.byte());
                self.lie(index, &out);
            }
            _ => refuse(&mut self.world.sockets[index]),
        }
    }

    /// A server says what it was not asked.
    fn lie(&mut self, index: usize, bytes: &[u8]) {
        let World { postgres, sockets, .. } = &mut self.world;
        postgres.lie(&mut sockets[index], bytes);
    }

    fn surroundings(&mut self, who: usize, what: u8) {
        match what {
            26 => {
                let span = Duration::from_millis(250) * u32::from(self.tape.byte());
                self.world.wait(span);
            }
            27 => self.world.sockets.set_piece(usize::from(self.tape.byte())),
            28 => match who {
                0 | 1 => self.world.sockets.set_holds(who == 1),
                2 | 3 => self.world.postgres.set_serves(who == 2),
                4 | 5 => self.world.post.set_full(who == 4),
                _ => {}
            },
            29 => {
                let room = usize::from(self.tape.byte());
                let target = who + usize::from(self.tape.byte() & 7) * 8;
                let open = self.world.sockets.all_that(|socket| socket.id.is_some());
                if !open.is_empty() {
                    let index = open[target % open.len()];
                    self.world.sockets[index].room = (room < 250).then_some(room * room);
                }
            }
            30 => self.cancel_for(who % SEATS),
            _ => self.steer(who),
        }
    }

    fn cancel_for(&mut self, seat: usize) {
        let Some(client) = self.world.clients.get(seat) else { return };
        let Some((pid, mut secret)) = client.key() else { return };
        let (number, wrong) = (client.number(), self.tape.byte());
        if wrong == 0 {
            self.world.clients.note_cancel(number);
        }
        *secret.last_mut().expect("a secret has four bytes at least") ^= wrong;
        self.world.request_cancel(pid, secret);
    }

    fn steer(&mut self, who: usize) {
        match who {
            0 | 1 => {
                let mut settings = setting::settings(self.tape.byte(), self.tape.byte());
                if who == 1 {
                    settings.databases.remove("two");
                }
                self.world.configure(settings);
            }
            2 => {
                self.world.post.put(Mail::ToWorker(WorkerId(0), ToWorker::Look { ticket: 7, look: Look::Connections }))
            }
            3 => self.world.stop(Stop::WaitForClients),
            4 => self.world.stop(Stop::WaitForServers),
            _ => {}
        }
    }
}

/// A server says its last words, as when an administrator ends it.
fn refuse(socket: &mut Socket) {
    if socket.is_live_server() {
        fatal("terminating connection due to administrator command", &mut socket.incoming);
        (socket.process, socket.ends) = (None, true);
    }
}

/// A text with the client's mark in each of its statements.
fn statement(text: &str, client: &mut Client) -> String {
    let Some(mark) = client.mark() else { return text.to_owned() };
    let marked: Vec<String> = text.split(';').map(|part| format!("{part} /*{}*/", mark.text())).collect();
    marked.join(";")
}

/// More than a read brings, more than is kept of a statement, more than a name may have.
fn large(client: &mut Client, more: u8, out: &mut Vec<u8>) {
    let len = [70_000, 300_000, 140_000, 1_000_000][usize::from(more & 3)];
    let filling = vec![b' '; len];
    match more >> 2 & 3 {
        0 => {
            let text = statement("select 1 1", client);
            frontend::Query { text: &[text.as_bytes(), &filling].concat() }.encode(out);
        }
        1 => {
            let query = [b"select 1 1", &filling[..]].concat();
            frontend::Parse { name: b"s1", query: &query, types: frontend::Parse::NO_TYPES }.encode(out);
        }
        2 => frontend::encode_copy_data(out, &filling),
        _ => frontend::Describe { target: Target::Statement, name: &filling[..len / 2] }.encode(out),
    }
}

fn fatal(message: &str, out: &mut Vec<u8>) {
    ErrorResponse { severity: "FATAL", code: sqlstate::ADMIN_SHUTDOWN, message, detail: None, hint: None }.encode(out);
}

/// What a server says at other times.
fn typical(choice: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let error =
        |severity| ErrorResponse { severity, code: sqlstate::QUERY_CANCELED, message: "m", detail: None, hint: None };
    match choice & 31 {
        0 => backend::encode_ready(&mut out, Status::Idle),
        1 => backend::encode_ready(&mut out, Status::InTransaction),
        2 => backend::encode_ready(&mut out, Status::Failed),
        3 => backend::encode_command_complete(&mut out, "SELECT 1"),
        4 => error("ERROR").encode(&mut out),
        5 => error("FATAL").encode(&mut out),
        6 => error("NOTICE").encode_notice(&mut out),
        7 => backend::encode_copy_in(&mut out, 1),
        8 => backend::encode_copy_out(&mut out, 1),
        9 => backend::encode_copy_both(&mut out, 1),
        10 => backend::encode_copy_data(&mut out, b"row"),
        11 => backend::encode_copy_done(&mut out),
        12 => backend::encode_data_row(&mut out, [Some(&b"value"[..])]),
        13 => backend::encode_row_description(&mut out, &[]),
        14 => backend::encode_parse_complete(&mut out),
        15 => backend::encode_bind_complete(&mut out),
        16 => backend::encode_close_complete(&mut out),
        17 => backend::encode_no_data(&mut out),
        18 => backend::encode_portal_suspended(&mut out),
        19 => backend::encode_empty_query(&mut out),
        20 => backend::encode_parameter_description(&mut out, &[25]),
        21 => backend::Notification { pid: 1, channel: b"c", payload: b"p" }.encode(&mut out),
        22 => backend::ParameterStatus { name: b"TimeZone", value: b"Asia/Tokyo" }.encode(&mut out),
        23 => backend::BackendKeyData { pid: 1, secret: b"abcd" }.encode(&mut out),
        24 => Authentication::Ok.encode(&mut out),
        25 => Authentication::CleartextPassword.encode(&mut out),
        26 => Authentication::Md5Password { salt: *b"salt" }.encode(&mut out),
        27 => backend::encode_sasl(&mut out, &[b"SCRAM-SHA-256"]),
        28 => Authentication::SaslContinue(b"r=a,s=c2FsdA==,i=1").encode(&mut out),
        29 => Authentication::SaslFinal(b"v=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").encode(&mut out),
        30 => wire::message(&mut out, backend::tag::FUNCTION_CALL_RESPONSE, |out| out.extend_from_slice(&[255; 4])),
        // The beginning of a row whose end is far away.
        _ => out.extend_from_slice(&[backend::tag::DATA_ROW, 0, 1, 0, 0, 0, 1]),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clients on one server, by one transaction and by prepared statements; the third waits and is told why not.
    #[test]
    fn well_behaved_clients_are_served() {
        let script = [
            &[0, 0][..],
            &[0, 0, 0x20, 0, 3, 1, 3, 0, 0x23, 0, 3, 2],
            &[0x25, 1, 0x26, 1, 0x28, 0, 0x2a, 0],
            &[3, 1, 0x40, 0, 0x43, 0, 26, 255],
        ];
        let script = script.concat();
        let mut script = WorkerScript::new(&script);
        script.play();
        let heard = [0, 1, 2].map(|seat| script.world.clients.heard(seat));
        assert_eq!(heard, [Some((1, true)), Some((2, true)), Some((0, true))]);
        assert!(!script.world.postgres.lies());
        script.end();
    }

    #[test]
    #[should_panic(expected = "I2: client")]
    fn a_strangers_row_is_noticed() {
        let mut script = WorkerScript::new(&[0, 0, 0, 0, 0x20, 0]);
        script.play();
        let client = |seat: usize| script.world.clients.get(seat).expect("it has come");
        let (number, socket) = (client(1).number(), client(0).socket());
        let mut row = Vec::new();
        backend::encode_data_row(&mut row, [Some(format!("c{number}.1.0:").as_bytes())]);
        script.world.hear(socket, &row);
    }
}
