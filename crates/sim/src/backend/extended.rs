//! Parse, Bind, Describe, Execute, Close: reading them, and the answers to them.

use wire::backend;
use wire::frontend::{BindNames, Close, Describe, Execute, Parse, Target, tag};

use super::session::{Ran, refusal};
use super::{Backend, Progress, Running, rows};
use crate::book::Step;
use crate::settings::SettingRefusal;
use crate::statement::{Body, Mark};

/// A message that cannot be read.
fn invalid<E>(words: &'static str) -> impl FnOnce(E) -> SettingRefusal {
    move |_| refusal("08P01", words)
}

impl Backend {
    pub(super) fn extended(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>) -> Progress {
        let done = match message {
            tag::PARSE => self.parse(body, out),
            tag::BIND => self.bind(body, out),
            tag::DESCRIBE => self.describe(body, out),
            tag::CLOSE => self.close(body, out),
            _ => self.execute(body, out),
        };
        done.unwrap_or_else(|refusal| {
            self.error(&refusal, out);
            Progress::Done
        })
    }

    fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let parse = Parse::decode(body).map_err(invalid("invalid Parse"))?;
        self.session.parse(parse.name, parse.query)?;
        backend::encode_parse_complete(out);
        Ok(Progress::Done)
    }

    fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let names = BindNames::decode(body).ok_or(()).map_err(invalid("invalid Bind"))?;
        let portal = self.session.portal_of(names.statement, first_parameter(&body[names.len..]))?;
        self.mark = portal.mark;
        self.admit(&portal.body, Some(Step::Bind))?;
        self.session.bind(names.portal, portal)?;
        backend::encode_bind_complete(out);
        Ok(Progress::Done)
    }

    fn describe(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let describe = Describe::decode(body).map_err(invalid("invalid Describe"))?;
        let described = self.session.describe(describe.target, describe.name)?;
        if describe.target == Target::Statement {
            backend::encode_parameter_description(out, &[backend::oid::TEXT]);
        }
        if let Body::Wide(_) = described.body {
            rows::describe_columns(described.columns, out);
        } else if described.body.returns_rows() {
            rows::describe(out);
        } else {
            backend::encode_no_data(out);
        }
        Ok(Progress::Done)
    }

    fn close(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let close = Close::decode(body).map_err(invalid("invalid Close"))?;
        self.session.close(close.target, close.name);
        backend::encode_close_complete(out);
        Ok(Progress::Done)
    }

    fn execute(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let execute = Execute::decode(body).map_err(invalid("invalid Execute"))?;
        let portal = self.session.portal(execute.portal)?;
        let step = portal.run();
        let portal = portal.clone();
        self.mark = portal.mark;
        self.admit(&portal.body, step)?;
        match portal.body {
            Body::Sleep { .. } if portal.has_slept() => backend::encode_command_complete(out, "SELECT 0"),
            Body::Select { rows, len } => {
                let (rows, is_suspended) = self.session.portal(execute.portal)?.fetch(rows, execute.rows_max);
                let count = rows.len();
                rows::encode(self.mark, rows, len, out);
                if is_suspended {
                    backend::encode_portal_suspended(out);
                } else {
                    backend::encode_command_complete(out, &format!("SELECT {count}"));
                }
            }
            Body::Wide(_) => rows::encode_wide(self.mark, portal.columns, out),
            ref body => return self.execute_whole(body, execute.portal, out),
        }
        Ok(Progress::Done)
    }

    /// Runs a portal whose command returns all rows at once, or continues with later messages.
    fn execute_whole(&mut self, body: &Body, portal: &[u8], out: &mut Vec<u8>) -> Result<Progress, SettingRefusal> {
        let ran = self.run(body, false, out)?;
        if ran != Ran::Done {
            // An error that follows, also one in COPY, is an error of the extended protocol.
            self.running = Running::Portal(portal.to_vec());
        }
        Ok(match ran {
            Ran::Sleeps(micros) => Progress::Works(micros),
            Ran::Done | Ran::CopiesIn => Progress::Done,
        })
    }

    /// The sleep in a portal is over.
    pub(super) fn finish_sleep(&mut self, name: &[u8], out: &mut Vec<u8>) {
        if let Ok(portal) = self.session.portal(name) {
            portal.sleep();
        }
        rows::encode(self.mark, 0..1, 0, out);
        backend::encode_command_complete(out, "SELECT 1");
    }
}

/// The first parameter of a Bind; `rest` begins after its names.
fn first_parameter(rest: &[u8]) -> Option<Mark> {
    let formats = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
    let rest = rest.get(2 + 2 * formats..)?;
    let count = u16::from_be_bytes(*rest.first_chunk()?);
    let len = u32::from_be_bytes(*rest.get(2..)?.first_chunk()?) as usize;
    let value = rest.get(6..)?.get(..len).filter(|_| count > 0)?;
    Mark::parse(std::str::from_utf8(value).ok()?)
}
