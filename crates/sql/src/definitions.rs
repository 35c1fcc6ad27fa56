//! CREATE, ALTER and DROP: what they change that other statements depend on.

use crate::head::Head;
use crate::kind::Kind;
use crate::lexer::TokenKind;
use crate::marks::Marks;

/// What may stand between CREATE, ALTER or DROP and the sort of object.
const BEFORE_OBJECT: [&str; 15] = [
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "trusted",
    "procedural",
    "constraint",
    "event",
    "unique",
    "recursive",
    "default",
    "materialized",
];

/// The marks of a definition's first words, given those found in all of it; `None` if no known server has such a thing.
pub(crate) fn marks(head: &Head<'_, '_>, all: Marks) -> Option<Marks> {
    let mut object = head.clone();
    let verb = object.clone();
    object.advance();
    while object.take_any(&BEFORE_OBJECT) {}
    let mut marks = of_an_object(&verb, &object)?;
    if all.any(Marks::TEMPORARY) {
        // Sessions with temporary objects are known already.
        marks = marks.without(Marks::RELATIONS);
    }
    if has_word(head, "concurrently") {
        marks |= Marks::ALONE;
    }
    Some(marks)
}

fn of_an_object(verb: &Head<'_, '_>, object: &Head<'_, '_>) -> Option<Marks> {
    let (both, none) = (Marks::RELATIONS | Marks::ROUTINES, Marks::NONE);
    Some(match object.word() {
        b"table" | b"index" | b"sequence" | b"statistics" => Marks::RELATIONS,
        b"foreign" | b"schema" | b"owned" | b"access" => both,
        b"aggregate" | b"cast" | b"collation" | b"conversion" | b"domain" | b"extension" | b"function"
        | b"language" | b"operator" | b"policy" | b"procedure" | b"routine" | b"rule" | b"text" | b"transform"
        | b"trigger" | b"type" | b"view" => Marks::ROUTINES | if object.at("type") { Marks::ALONE } else { none },
        b"role" | b"user" | b"group" if verb.at("alter") && changes_defaults(object) => Marks::DEFAULTS,
        b"role" | b"user" | b"group" | b"server" | b"publication" | b"large" | b"privileges" | b"property" => none,
        b"system" => Marks::ALONE | Marks::DEFAULTS,
        b"tablespace" | b"subscription" => Marks::ALONE,
        b"database" => of_a_database(verb, object),
        _ => return None,
    })
}

/// A definition of which no prepared statement comes to return other columns: at most, it fails.
pub(crate) fn keeps_results(head: &Head<'_, '_>) -> bool {
    let mut object = head.next();
    while object.take_any(&BEFORE_OBJECT) {}
    head.at("drop") || head.at_any(&["create", "alter"]) && object.at_any(&["index", "statistics"])
}

//= pg18 sql-alterdatabase
fn of_a_database(verb: &Head<'_, '_>, object: &Head<'_, '_>) -> Marks {
    if !verb.at("alter") {
        return Marks::ALONE | Marks::EMPTY_DATABASE;
    }
    let moves = has_word(object, "tablespace") || has_word(object, "rename");
    let alone = if moves { Marks::ALONE | Marks::EMPTY_DATABASE } else { Marks::NONE };
    alone | if changes_defaults(object) { Marks::DEFAULTS } else { Marks::NONE }
}

/// ALTER … SET or RESET of settings. //= pg18 sql-alterrole
fn changes_defaults(object: &Head<'_, '_>) -> bool {
    has_word(object, "set") || has_word(object, "reset")
}

fn has_word(from: &Head<'_, '_>, word: &str) -> bool {
    let mut ahead = from.clone();
    while !ahead.done() && !ahead.at(word) {
        ahead.advance();
    }
    !ahead.done()
}

/// CREATE TABLE … AS EXECUTE runs a prepared statement; every other definition is plain. //= pg18 sql-createtableas
pub(crate) fn kind<'t>(head: &Head<'_, 't>) -> Kind<'t> {
    let mut ahead = head.clone();
    while ahead.take_any(&["create", "global", "local", "temp", "temporary", "unlogged"]) {}
    if !head.at("create") || !ahead.at("table") {
        return Kind::Plain;
    }
    let mut depth = 0;
    while !ahead.done() && (depth > 0 || !ahead.at("as")) {
        depth += i32::from(ahead.at_byte(b'(')) - i32::from(ahead.at_byte(b')'));
        ahead.advance();
    }
    if ahead.take_all(&["as", "execute"]).is_none() || ahead.kind() == Some(TokenKind::String) {
        return Kind::Plain;
    }
    ahead.name().map_or(Kind::Unknown, Kind::Execute)
}
