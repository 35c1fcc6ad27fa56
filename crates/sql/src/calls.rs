//! Calls of set_config, which is SET as a function: which setting, which value, for how long. //= pg18 functions-admin
//!
//! Two readers need two things. The marks of a text tell only whether every call is local to its transaction by the
//! word `true`: a memo keeps marks by a fingerprint that leaves strings out, so they must not depend on what a string
//! holds. With the statement itself at hand the strings can be read too:
//! [`set_config_calls`](crate::Statement::set_config_calls).
//!
//! What is written is not what happens: a call may run for each row, or never. [`only_sets_config`](crate::Statement::only_sets_config) tells where
//! each runs exactly once.

use crate::head::Head;
use crate::lexer::TokenKind;
use crate::marks::Marks;
use crate::text::Text;

/// A call of set_config, as far as it is written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetConfig<'t> {
    /// What the literal holds, as written; `None` if it is no literal, or one that would have to be decoded. Upper and
    /// lower case name the same setting.
    pub name: Option<&'t [u8]>,
    /// The number of the parameter that the name is: `$1` is 1. With a cast to a string type, or without.
    pub name_parameter: Option<u16>,
    pub value: Option<&'t [u8]>,
    /// The value is NULL: the setting is reset.
    pub is_reset: bool,
    /// Until the transaction's end. `None` if it is no literal.
    pub local: Option<bool>,
}

/// Calls from left to right; of one within another's arguments, the outer one comes first.
#[derive(Debug)]
pub struct SetConfigs<'a, 't> {
    head: Head<'a, 't>,
    qualified: Qualified,
}

/// What stands before a name, and a dot between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Qualified {
    No,
    Catalog,
    /// By another schema: a user-defined function.
    Other,
}

/// One of the three arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument<'t> {
    String(&'t [u8]),
    Bool(bool),
    /// By its number.
    Parameter(u16),
    Null,
    /// Another literal.
    Constant,
    Other,
}

/// What is known of the arguments of one call: nothing if they are not three, or another call is among them.
type Arguments<'t> = Option<[Argument<'t>; 3]>;

/// Where the name stands.
enum Mention<'t> {
    /// Not called: an aggregate may be made of it, or it is a column.
    Name,
    Call(Arguments<'t>),
}

impl<'t> Head<'_, 't> {
    /// `pg_catalog .` before a name.
    fn take_all_of_catalog(&mut self) {
        if self.is_name(b"pg_catalog") && self.next().at_byte(b'.') {
            self.advance();
            self.advance();
        }
    }
}

impl<'a, 't> SetConfigs<'a, 't> {
    pub(crate) fn between(text: &'a Text<'t>, start: usize, end: usize) -> SetConfigs<'a, 't> {
        SetConfigs { head: Head::new(text, start, end), qualified: Qualified::No }
    }

    fn mention(&mut self) -> Option<Mention<'t>> {
        while !self.head.done() {
            let (is_it, qualified) = (self.head.is_name(b"set_config"), self.qualified);
            self.qualified = self.qualifies();
            self.head.advance();
            if !is_it {
                continue;
            }
            if !self.head.at_byte(b'(') {
                return Some(Mention::Name);
            }
            let is_known = qualified != Qualified::Other;
            // Calls within the arguments come next, so only a copy goes over these.
            return Some(Mention::Call(is_known.then(|| arguments(&mut self.head.next())).flatten()));
        }
        None
    }

    /// How the current token qualifies the name behind the next one, if that is a dot; or, being the dot, the next.
    fn qualifies(&self) -> Qualified {
        if self.head.at_byte(b'.') {
            return self.qualified;
        }
        if !self.head.next().at_byte(b'.') {
            return Qualified::No;
        }
        if self.head.is_name(b"pg_catalog") { Qualified::Catalog } else { Qualified::Other }
    }
}

impl<'t> Iterator for SetConfigs<'_, 't> {
    type Item = SetConfig<'t>;

    fn next(&mut self) -> Option<SetConfig<'t>> {
        loop {
            match self.mention()? {
                Mention::Name => {}
                Mention::Call(None) => return Some(SetConfig::default()),
                Mention::Call(Some([name, value, local])) => {
                    let local = match local {
                        Argument::Bool(local) => Some(local),
                        Argument::String(written) => bool_of(written),
                        Argument::Parameter(_) | Argument::Null | Argument::Constant | Argument::Other => None,
                    };
                    let name_parameter = if let Argument::Parameter(number) = name { Some(number) } else { None };
                    let (value, is_reset) = (value.string(), value == Argument::Null);
                    return Some(SetConfig { name: name.string(), name_parameter, value, is_reset, local });
                }
            }
        }
    }
}

impl<'t> Argument<'t> {
    fn string(self) -> Option<&'t [u8]> {
        if let Argument::String(string) = self { Some(string) } else { None }
    }
}

/// See [`only_sets_config`](crate::Statement::only_sets_config); the statement stands between `start` and `end`.
pub(crate) fn only_sets_config(text: &Text<'_>, start: usize, end: usize) -> bool {
    let mut head = Head::new(text, start, end);
    if !head.take("select") {
        return false;
    }
    loop {
        head.take_all_of_catalog();
        let is_call = head.is_name(b"set_config") && head.next().at_byte(b'(');
        head.advance();
        head.advance();
        let arguments = if is_call { arguments(&mut head) } else { None };
        // What is computed may be computed for each row, or for none.
        if arguments.is_none_or(|arguments| arguments.contains(&Argument::Other)) {
            return false;
        }
        head.take("as");
        head.written_name();
        if !head.at_byte(b',') {
            return head.done();
        }
        head.advance();
    }
}

/// The marks for what stands between `start` and `end`, where set_config is named. No string has a say in it.
pub(crate) fn marks(text: &Text<'_>, start: usize, end: usize) -> Marks {
    let mut calls = SetConfigs::between(text, start, end);
    let (mut lasts, mut passes) = (false, false);
    while let Some(mention) = calls.mention() {
        let local = match mention {
            Mention::Call(Some([_, _, Argument::Bool(local)])) => Some(local),
            _ => None,
        };
        lasts |= local != Some(true);
        passes |= local != Some(false);
    }
    let rights = if passes { Marks::LOCAL_RIGHTS } else { Marks::NONE };
    rights | if lasts { Marks::SET_CONFIG } else { Marks::SET_LOCAL }
}

/// The three arguments before a closing parenthesis; the cursor stands at the first, and then behind the parenthesis.
fn arguments<'t>(head: &mut Head<'_, 't>) -> Arguments<'t> {
    let mut of = |end: u8| {
        let argument = argument(head)?;
        let ends = head.at_byte(end);
        head.advance();
        ends.then_some(argument)
    };
    Some([of(b',')?, of(b',')?, of(b')')?])
}

/// One argument: the cursor then stands at what ends it. `None` if the name stands in it once more: a reader that looks
/// ahead from each of many such names to the last would look at the same tokens many times.
fn argument<'t>(head: &mut Head<'_, 't>) -> Option<Argument<'t>> {
    let found = literal(head);
    let ends = |head: &Head<'_, '_>| head.at_byte(b',') || head.at_byte(b')');
    if ends(head) {
        return Some(found);
    }
    let mut depth = 0_u32;
    while depth > 0 || !ends(head) {
        if head.done() || head.is_name(b"set_config") {
            return None;
        }
        if head.at_byte(b'(') || head.at_byte(b'[') {
            depth += 1;
        } else if head.at_byte(b')') || head.at_byte(b']') {
            depth = depth.checked_sub(1)?;
        }
        head.advance();
    }
    Some(Argument::Other)
}

/// A literal, with or without a cast to the type that it has anyway.
fn literal<'t>(head: &mut Head<'_, 't>) -> Argument<'t> {
    let argument = match head.kind() {
        Some(TokenKind::String) => plain_string(head),
        Some(TokenKind::Parameter) => parameter(head),
        Some(TokenKind::Number) => Argument::Constant,
        _ if head.at("null") => Argument::Null,
        _ if head.at("true") => Argument::Bool(true),
        _ if head.at("false") => Argument::Bool(false),
        _ => return Argument::Other,
    };
    head.advance();
    let types: &[&str] = match argument {
        Argument::Bool(_) => &["bool", "boolean"],
        _ => &["text", "varchar", "bool", "boolean"],
    };
    // What is left standing here is seen not to end the argument.
    if head.at_byte(b':') && head.next().at_byte(b':') {
        head.advance();
        head.advance();
        head.take_all_of_catalog();
        head.take_any(types);
    }
    argument
}

fn parameter<'t>(head: &Head<'_, 't>) -> Argument<'t> {
    let written = head.current().map(|token| head.source(token.start, token.end)).unwrap_or_default();
    let number = written.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.map_or(Argument::Constant, Argument::Parameter)
}

fn plain_string<'t>(head: &Head<'_, 't>) -> Argument<'t> {
    let written = head.current().map(|token| head.source(token.start, token.end)).unwrap_or_default();
    match written {
        [b'\'', inside @ .., b'\''] if !inside.iter().any(|byte| matches!(byte, b'\'' | b'\\')) => {
            Argument::String(inside)
        }
        _ => Argument::Constant,
    }
}

/// Of what a string means as a boolean, the ways it is written in full or by its first letter.
//= pg18 datatype-boolean
fn bool_of(written: &[u8]) -> Option<bool> {
    let is_any = |known: &[&str]| known.iter().any(|known| written.eq_ignore_ascii_case(known.as_bytes()));
    if is_any(&["true", "t", "yes", "y", "on", "1"]) {
        return Some(true);
    }
    is_any(&["false", "f", "no", "n", "off", "0"]).then_some(false)
}
