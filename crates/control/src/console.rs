//! The console's answers as wire messages.
//!
//! Every answer ends with ReadyForQuery, so that the client can send the next command. Errors have SQLSTATE 08P01, or
//! F0000 for a failed RELOAD: drivers treat the two differently.
//= pgbouncer usage.md#admin-console

use std::borrow::Cow;

use machine::{Manner, Question};
use wire::backend::{self, ErrorResponse, Status};
use wire::sqlstate::SqlState;

use crate::command::{Command, suggestion};
use crate::courtesy::{Courtesy, parameter_types};
use crate::help;
use crate::pattern::Pattern;
use crate::sight::Sight;
use crate::table::{Table, TableFormat};

const PROTOCOL_VIOLATION: SqlState = SqlState(*b"08P01");
const CONFIG_FILE_ERROR: SqlState = SqlState(*b"F0000");
const SUCCESSFUL_COMPLETION: SqlState = SqlState(*b"00000");

/// Characters of a mistyped command that an error repeats.
const ECHO_CHARS_MAX: usize = 1000;

/// Problems of a configuration that an error repeats.
const PROBLEMS_MAX: usize = 10;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Rows(Table),
    /// Rows of a SELECT.
    Selected(Table),
    Help,
    /// The columns of a command that is only read; `None`: it gives no rows.
    Columns(Option<Table>),
    /// The columns of a SELECT that is only read, and how many parameters it has.
    Selection(Table, u16),
    /// A text without a command.
    Empty,
    /// The tag of a command that gives no rows.
    Done(Cow<'static, str>),
    Refused(Refusal),
    /// The answers to the statements of one text, in their order.
    Several(Vec<Answer>),
    /// An answer, and a notice before it.
    Noticed(String, Box<Answer>),
}

/// Why a command gets an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not a command; the text as sent.
    Invalid(String),
    AdminNeeded,
    /// The problems, as the log has them.
    ReloadFailed(Vec<String>),
    /// The same.
    SetFailed(Vec<String>),
    /// An order that cannot be carried out, and why.
    Words(String),
}

/// The command in a question, if its user may run it.
///
/// # Errors
/// The refusal to answer with.
pub(crate) fn command(question: &Question) -> Result<Command, Refusal> {
    let text = String::from_utf8_lossy(&question.text);
    // A text without a word is an error in PgBouncer, and nothing in the extended protocol, which it has not.
    let is_nothing = text.trim().is_empty() && question.manner != Manner::Query;
    let read = if is_nothing { Some(Command::Courtesy(Courtesy::Silence)) } else { Command::parse(&text) };
    // Several statements are for a simple query, as in PostgreSQL.
    let is_one = question.manner == Manner::Query || !matches!(read, Some(Command::Courtesy(Courtesy::Several(_))));
    let Some(command) = read.filter(|_| is_one) else {
        return Err(Refusal::Invalid(text.chars().take(ECHO_CHARS_MAX).collect()));
    };
    if question.admin || command.is_for_stats_users() { Ok(command) } else { Err(Refusal::AdminNeeded) }
}

/// What is to be looked at, at PostgreSQL too, before the question is answered.
pub(crate) fn wanted_sight(question: &Question) -> Option<Sight> {
    match command(question) {
        Ok(Command::Show(shown)) if !matches!(question.manner, Manner::Describe { .. }) => shown.sight(),
        _ => None,
    }
}

impl Refusal {
    /// The message for the client and the log.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        match self {
            Refusal::Invalid(text) => format!("invalid command '{text}', use SHOW HELP;"),
            Refusal::AdminNeeded => "admin access needed".to_owned(),
            Refusal::Words(words) => words.clone(),
            Refusal::SetFailed(_) => "SET failed".to_owned(),
            Refusal::ReloadFailed(_) => "RELOAD failed, see logs for additional details".to_owned(),
        }
    }

    /// The first problems, a line each.
    fn detail(&self) -> Option<String> {
        let (Refusal::ReloadFailed(problems) | Refusal::SetFailed(problems)) = self else { return None };
        let left = problems.len().saturating_sub(PROBLEMS_MAX);
        let more = (left > 0).then(|| format!("{left} more are in the log"));
        let lines: Vec<String> = problems.iter().take(PROBLEMS_MAX).cloned().chain(more).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn hint(&self) -> Option<String> {
        let Refusal::Invalid(text) = self else { return None };
        suggestion(text).map(|command| format!("Perhaps you meant {command}."))
    }

    fn code(&self) -> SqlState {
        match self {
            Refusal::ReloadFailed(_) => CONFIG_FILE_ERROR,
            _ => PROTOCOL_VIOLATION,
        }
    }
}

impl Answer {
    pub(crate) fn done(tag: &'static str) -> Answer {
        Answer::Done(Cow::Borrowed(tag))
    }

    /// The same without the rows that do not fit.
    pub(crate) fn like(mut self, pattern: &Pattern) -> Answer {
        if let Answer::Rows(table) = &mut self {
            table.retain(pattern);
        }
        self
    }

    pub(crate) fn in_format(self, format: TableFormat) -> Answer {
        match self {
            Answer::Rows(table) => Answer::Rows(table.in_format(format)),
            other => other,
        }
    }

    /// The messages, ReadyForQuery included.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.encode_for(&Manner::Query)
    }

    /// The same, for a command that came in this manner.
    pub(crate) fn encode_for(&self, manner: &Manner) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_messages(manner, &mut out);
        backend::encode_ready(&mut out, Status::Idle);
        out
    }

    fn encode_messages(&self, manner: &Manner, out: &mut Vec<u8>) {
        match self {
            Answer::Rows(table) => {
                encode_table(table, manner, out);
                backend::encode_command_complete(out, "SHOW");
            }
            Answer::Selected(table) => {
                encode_table(table, manner, out);
                backend::encode_command_complete(out, &format!("SELECT {}", table.len()));
            }
            Answer::Columns(Some(table)) => encode_columns(table, manner, out),
            Answer::Columns(None) => backend::encode_no_data(out),
            Answer::Selection(table, parameters) => {
                if *parameters > 0 {
                    backend::encode_parameter_description(out, &parameter_types(*parameters));
                }
                encode_columns(table, manner, out);
            }
            Answer::Empty => backend::encode_empty_query(out),
            Answer::Help => {
                let (message, detail) = (help::MESSAGE, help::detail());
                let detail = Some(&*detail);
                ErrorResponse { severity: "NOTICE", code: SUCCESSFUL_COMPLETION, message, detail, hint: None }
                    .encode_notice(out);
                backend::encode_command_complete(out, "SHOW");
            }
            Answer::Done(tag) => backend::encode_command_complete(out, tag),
            Answer::Refused(refusal) => {
                let (message, detail, hint) = (&refusal.text(), refusal.detail(), refusal.hint());
                let (detail, hint) = (detail.as_deref(), hint.as_deref());
                ErrorResponse { severity: "ERROR", code: refusal.code(), message, detail, hint }.encode(out);
            }
            Answer::Noticed(message, answer) => {
                let code = SUCCESSFUL_COMPLETION;
                ErrorResponse { severity: "NOTICE", code, message, detail: None, hint: None }.encode_notice(out);
                answer.encode_messages(manner, out);
            }
            Answer::Several(answers) => answers.iter().for_each(|answer| answer.encode_messages(manner, out)),
        }
    }
}

fn encode_table(table: &Table, manner: &Manner, out: &mut Vec<u8>) {
    match manner {
        Manner::Execute { formats } => table.encode_rows(formats, out),
        Manner::Query | Manner::Describe { .. } => {
            table.encode_columns(&[], out);
            table.encode_rows(&[], out);
        }
    }
}

fn encode_columns(table: &Table, manner: &Manner, out: &mut Vec<u8>) {
    match manner {
        Manner::Describe { formats } => table.encode_columns(formats, out),
        Manner::Query | Manner::Execute { .. } => table.encode_columns(&[], out),
    }
}
