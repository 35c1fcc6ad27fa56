//! The Helm chart's values.schema.json knows every setting and parameter, with the kind of value that it takes, and the chart knows
//! which settings need a restart. `UPDATE=1` writes both. What else the schema has is written by hand and left alone.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;

use config::{classes, databases, users};
use connections::databases::TargetSessionAttrs;
use settings::value::{INT_MAX, Kind};
use settings::{DatabaseSettings, Key, TABLE, UserSettings};

use crate::{compare, in_tree};

/// One entry of `properties`: name, kind, words.
struct Property {
    name: &'static str,
    kind: Kind,
    doc: Cow<'static, str>,
}

const SCHEMA: &str = "deploy/helm/pgweir/values.schema.json";

#[test]
fn the_schema_knows_every_setting() {
    let kept = fs::read_to_string(in_tree(SCHEMA)).expect("the chart has a schema");
    let definitions = [
        ("settings", settings_properties(), ""),
        ("database", database_properties(), SECRET),
        ("user", user_properties(), ""),
        ("class", class_properties(), ""),
    ];
    let mut made = kept.clone();
    for (name, properties, more) in definitions {
        assert!(!properties.is_empty());
        made = replaced(&made, name, &definition(&properties, more));
    }
    compare(SCHEMA, &made);
}

#[test]
fn the_chart_knows_which_settings_need_a_restart() {
    let names = TABLE.iter().filter(|setting| !setting.reloadable).map(|setting| format!("{}\n", setting.name));
    compare("deploy/helm/pgweir/files/restart-settings.txt", &names.collect::<String>());
}

/// The chart's own parameter of a database.
const SECRET: &str = r##"        "passwordSecret": { "$ref": "#/definitions/secretKey", "description": "An existing Secret with the password of user." },
"##;

/// `text` with another body of the definition: what stands between its first line and the line that closes it.
fn replaced(text: &str, name: &str, body: &str) -> String {
    let first = format!("\n    \"{name}\": {{\n");
    let begin = text.find(&first).unwrap_or_else(|| panic!("the schema has no definition {name}")) + first.len();
    let end = begin + text[begin..].find("\n    }").expect("every definition is closed") + 1;
    format!("{}{body}{}", &text[..begin], &text[end..])
}

fn definition(properties: &[Property], more: &str) -> String {
    let mut body = String::from(
        "      \"type\": [\"object\", \"null\"],\n      \"additionalProperties\": false,\n      \"properties\": {\n",
    );
    body.push_str(more);
    for (index, property) in properties.iter().enumerate() {
        let comma = if index + 1 < properties.len() { "," } else { "" };
        let (name, kind, doc) = (property.name, schema(property.kind), escaped(&property.doc));
        let _ = writeln!(body, "        \"{name}\": {{ {kind}, \"description\": \"{doc}\" }}{comma}");
    }
    body.push_str("      }\n");
    body
}

/// What a value of this kind is in YAML. `null` takes a value back that the chart has by default.
fn schema(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Template | Kind::HttpUrl | Kind::Path => r#""type": ["string", "null"]"#.to_owned(),
        Kind::List | Kind::Networks | Kind::HttpHeaders | Kind::Statements => {
            r#""type": ["string", "array", "null"], "items": { "type": "string" }"#.to_owned()
        }
        Kind::Count(min, max, _) => {
            format!(r#""type": ["integer", "null"], "minimum": {min}, "maximum": {max}"#)
        }
        Kind::Size => {
            format!(r#""type": ["integer", "string", "null"], "minimum": 0, "maximum": {INT_MAX}, "pattern": "^auto$""#)
        }
        Kind::Flag => r#""type": ["boolean", "integer", "null"], "minimum": 0, "maximum": 1"#.to_owned(),
        Kind::Share => r#""type": ["number", "null"], "minimum": 0, "maximum": 1"#.to_owned(),
        Kind::Seconds => r#""type": ["number", "null"], "minimum": 0"#.to_owned(),
        Kind::Mode => r#""type": ["string", "null"], "pattern": "^0?[0-7]{3,4}$""#.to_owned(),
        Kind::Choice(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!(r#""enum": [{}, null]"#, names.join(", "))
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn settings_properties() -> Vec<Property> {
    let property = |setting: &&settings::Setting| Property {
        name: setting.name,
        kind: setting.kind,
        doc: Cow::Borrowed(setting.doc),
    };
    TABLE.iter().map(property).collect()
}

fn kind_of(key: Option<Key>) -> Kind {
    key.map_or(Kind::Text, |key| key.setting().kind)
}

fn database_properties() -> Vec<Property> {
    let kind = |name: &str| match name {
        "port" => Kind::Count(1, 65535, ""),
        "reserve_pool" => kind_of(DatabaseSettings::key("reserve_pool_size")),
        "load_balance_hosts" => Kind::Choice(&["round-robin", "disable"]),
        "target_session_attrs" => Kind::Choice(TargetSessionAttrs::NAMES),
        _ => kind_of(DatabaseSettings::key(name)),
    };
    let all = databases::parameters().into_iter();
    all.map(|parameter| Property { name: parameter.name, kind: kind(parameter.name), doc: parameter.doc }).collect()
}

fn user_properties() -> Vec<Property> {
    let all = users::parameters().into_iter();
    let property = |parameter: config::entry::Parameter| Property {
        name: parameter.name,
        kind: kind_of(UserSettings::key(parameter.name)),
        doc: parameter.doc,
    };
    all.map(property).collect()
}

fn class_properties() -> Vec<Property> {
    let kind = |name: &str| match name {
        "weight" => Kind::Count(1, 10_000, ""),
        "priority" => Kind::Count(0, 255, ""),
        "overflow" => Kind::Choice(&["reject-newest", "drop-oldest"]),
        "over" => Kind::Choice(&["delay", "reject"]),
        "long" | "database" => Kind::Text,
        "long_after" => Kind::Seconds,
        _ => Kind::Count(0, INT_MAX, ""),
    };
    let property = |parameter: &config::entry::Parameter| Property {
        name: parameter.name,
        kind: kind(parameter.name),
        doc: parameter.doc.clone(),
    };
    classes::PARAMETERS.iter().map(property).collect()
}
