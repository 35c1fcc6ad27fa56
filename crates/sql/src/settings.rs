//! SET and RESET, with every other name that the grammar has for a setting. //= pg18 sql-set

use crate::head::Head;
use crate::kind::{Assignment, Kind, Scope, Value, Which};
use crate::lexer::TokenKind;
use crate::name::Name;
use crate::transactions::modes;

/// The cursor stands behind SET.
pub(crate) fn set<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.at("constraints") && !is_setting(head) {
        head.rest();
        return Some(Kind::SetTransaction);
    }
    let scope = scope(head);
    let clause = head.clone().rest();
    let assign = |name: Name<'t>, value: Value<'t>| Kind::Set(Assignment { scope, name, value, clause });
    if is_setting(head) {
        return Some(assign(setting(head)?, generic(head)?));
    }
    let aliases: [(&[&str], &'static [u8], Form); 7] = [
        (&["time", "zone"], b"timezone", Form::TimeZone),
        (&["schema"], b"search_path", Form::String),
        (&["names"], b"client_encoding", Form::Encoding),
        (&["role"], b"role", Form::Name),
        (&["session", "authorization"], b"session_authorization", Form::NameOrDefault),
        (&["xml", "option", "document"], b"xmloption", Form::None),
        (&["xml", "option", "content"], b"xmloption", Form::None),
    ];
    if let Some((words, name, form)) = aliases.into_iter().find(|(words, ..)| head.take_all(words).is_some()) {
        return Some(assign(Name::of(name), value(head, form, words)?));
    }
    if head.take_all(&["session", "characteristics", "as", "transaction"]).is_some() {
        return Some(Kind::SetCharacteristics { scope, modes: modes(head)?, clause });
    }
    head.take("transaction").then(|| transaction(head))?
}

/// SESSION and LOCAL, unless they are a setting's name or begin SESSION AUTHORIZATION and SESSION CHARACTERISTICS.
fn scope(head: &mut Head<'_, '_>) -> Scope {
    if is_setting(head) || is_of_the_session(head) {
        return Scope::Session;
    }
    if head.take("local") {
        return Scope::Local;
    }
    head.take("session");
    Scope::Session
}

/// The word here is a setting's name, whatever it means elsewhere.
fn is_setting(head: &Head<'_, '_>) -> bool {
    if !matches!(head.kind(), Some(TokenKind::Word | TokenKind::Quoted)) {
        return false;
    }
    let next = head.next();
    next.at_byte(b'.') || next.at_byte(b'=') || next.at_any(&["to", "from"])
}

fn is_of_the_session(head: &Head<'_, '_>) -> bool {
    let next = head.next();
    head.at("session") && (next.at("authorization") || next.at("characteristics") && next.next().at("as"))
}

/// SET TRANSACTION …, and SET TRANSACTION SNAPSHOT.
fn transaction<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.take("snapshot") {
        head.strings()?;
    } else {
        modes(head)?;
    }
    Some(Kind::SetTransaction)
}

/// What the value of a setting may be that the grammar has other words for.
#[derive(Clone, Copy)]
enum Form {
    TimeZone,
    String,
    Encoding,
    Name,
    NameOrDefault,
    /// The last of those words is the value.
    None,
}

fn setting<'t>(head: &mut Head<'_, 't>) -> Option<Name<'t>> {
    let mut name = head.name()?;
    while head.at_byte(b'.') {
        head.advance();
        name = name.and(head.written_name()?)?;
    }
    Some(name)
}

/// TO or = and a list of values, or FROM CURRENT.
fn generic<'t>(head: &mut Head<'_, 't>) -> Option<Value<'t>> {
    if head.take_all(&["from", "current"]).is_some() {
        return Some(Value::Current);
    }
    let start = if head.take("to") { head.start()? } else { after_equals(head)? };
    if head.at("default") && head.next().done() {
        head.advance();
        return Some(Value::Default);
    }
    let mut end = None;
    while let Some(token) = head.current() {
        let is_sign = token.kind == TokenKind::Operator && (head.at_byte(b'+') || head.at_byte(b'-'));
        let may_be = is_sign || head.at_byte(b',') || is_value(token.kind);
        may_be.then_some(())?;
        end = Some(token.end);
        head.advance();
    }
    end.map(|end| Value::Given(head.source(start, end)))
}

fn is_value(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Word | TokenKind::Quoted | TokenKind::String | TokenKind::Number)
}

/// Where the value begins: a sign may stand at once behind the equals sign.
/// //= pg18 sql-syntax-lexical#SQL-SYNTAX-OPERATORS
fn after_equals(head: &mut Head<'_, '_>) -> Option<usize> {
    let token = head.take_kind(TokenKind::Operator)?;
    match head.source(token.start, token.end) {
        b"=" => head.start(),
        b"=-" | b"=+" => Some(token.start + 1),
        _ => None,
    }
}

//= pg18 sql-set-session-authorization
fn value<'t>(head: &mut Head<'_, 't>, form: Form, words: &[&'static str]) -> Option<Value<'t>> {
    let is_last = head.next().done();
    match form {
        Form::TimeZone if is_last && head.take_any(&["default", "local"]) => Some(Value::Default),
        Form::TimeZone => (!head.done()).then(|| Value::Given(head.rest())),
        Form::Encoding if head.done() || head.take("default") => Some(Value::Default),
        Form::NameOrDefault if head.take("default") => Some(Value::Default),
        Form::String | Form::Encoding => head.strings().map(Value::Given),
        Form::Name | Form::NameOrDefault if head.kind() == Some(TokenKind::String) => head.strings().map(Value::Given),
        Form::Name | Form::NameOrDefault => head.written_name().map(Value::Given),
        Form::None => words.last().map(|word| Value::Given(word.as_bytes())),
    }
}

/// The cursor stands behind RESET.
//= pg18 sql-reset
pub(crate) fn reset<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.at("all") {
        head.advance();
        return Some(Kind::Reset(Which::All));
    }
    let others: [(&[&str], &'static [u8]); 3] = [
        (&["time", "zone"], b"timezone"),
        (&["transaction", "isolation", "level"], b"transaction_isolation"),
        (&["session", "authorization"], b"session_authorization"),
    ];
    let other = others.into_iter().find(|(words, _)| head.take_all(words).is_some());
    let name = other.map_or_else(|| setting(head), |(_, name)| Some(Name::of(name)))?;
    Some(Kind::Reset(Which::One(name)))
}
