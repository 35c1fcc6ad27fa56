//! What the parser's tree says of a statement, in the words of `sql`.

use serde_json::Value;
use sql::Marks;

/// A statement's kind, as [`crate::verdict`] shows those of `sql` too.
pub(crate) fn kind(name: &str, node: &Value) -> String {
    match name {
        "TransactionStmt" => transaction(node),
        "VariableSetStmt" => setting(node),
        "ConstraintsSetStmt" => "SetTransaction".to_owned(),
        "DiscardStmt" => format!("Discard {}", ["", "All", "Plans", "Sequences", "Temporary"][number(node, "target")]),
        "PrepareStmt" => format!("Prepare {}", text(node, "name")),
        "ExecuteStmt" => format!("Execute {}", text(node, "name")),
        "DeallocateStmt" => format!("Deallocate {}", one_or_all(node, "name")),
        "DeclareCursorStmt" => {
            let hold = number(node, "options") & 0x20 != 0;
            format!("Declare {} {hold}", text(node, "portalname"))
        }
        "ClosePortalStmt" => format!("Close {}", one_or_all(node, "portalname")),
        "FetchStmt" => "Fetch".to_owned(),
        "ListenStmt" => format!("Listen {}", text(node, "conditionname")),
        "UnlistenStmt" => format!("Unlisten {}", one_or_all(node, "conditionname")),
        "NotifyStmt" => format!("Notify {}", text(node, "conditionname")),
        "LoadStmt" => "Load".to_owned(),
        "CopyStmt" => "Copy".to_owned(),
        "DoStmt" => "Do".to_owned(),
        "CallStmt" => "Call".to_owned(),
        "ExplainStmt" | "CreateTableAsStmt" => inner(node),
        _ => "Plain".to_owned(),
    }
}

/// What EXPLAIN and CREATE TABLE AS run may be a prepared statement.
fn inner(node: &Value) -> String {
    match named(&node["query"]) {
        Some(("ExecuteStmt", query)) => kind("ExecuteStmt", query),
        Some(("CreateTableAsStmt", query)) => kind("CreateTableAsStmt", query),
        _ => "Plain".to_owned(),
    }
}

fn transaction(node: &Value) -> String {
    let chain = node["chain"].as_bool().unwrap_or_default();
    let savepoint = text(node, "savepoint_name");
    match number(node, "kind") {
        1 | 2 => format!("Begin {}", modes(&node["options"])),
        3 => format!("Commit {chain}"),
        4 => format!("Rollback {chain}"),
        5 => format!("Savepoint {savepoint}"),
        6 => format!("Release {savepoint}"),
        7 => format!("RollbackTo {savepoint}"),
        8 => "PrepareTransaction".to_owned(),
        9 => "CommitPrepared".to_owned(),
        10 => "RollbackPrepared".to_owned(),
        other => format!("transaction statement {other}"),
    }
}

/// The last of each mode.
fn modes(options: &Value) -> String {
    let (mut isolation, mut read_only, mut deferrable) = (String::new(), String::new(), String::new());
    for option in options.as_array().into_iter().flatten() {
        let Some(("DefElem", option)) = named(option) else { continue };
        let constant = named(&option["arg"]).map(|(_, constant)| constant["val"].clone()).unwrap_or_default();
        let is_on = constant["Ival"]["ival"].as_i64() == Some(1);
        match option["defname"].as_str() {
            Some("transaction_isolation") => {
                isolation = constant["Sval"]["sval"].as_str().unwrap_or_default().to_owned()
            }
            Some("transaction_read_only") => read_only = is_on.to_string(),
            Some("transaction_deferrable") => deferrable = is_on.to_string(),
            other => panic!("mode {other:?}"),
        }
    }
    format!("[{isolation}] [{read_only}] [{deferrable}]")
}

fn setting(node: &Value) -> String {
    let name = text(node, "name").to_ascii_lowercase();
    let scope = if node["is_local"].as_bool() == Some(true) { "Local" } else { "Session" };
    match (number(node, "kind"), name.as_str()) {
        (4, "session characteristics") => format!("SetCharacteristics {scope} {}", modes(&node["args"])),
        (4, _) => "SetTransaction".to_owned(),
        (1, _) => format!("Set {scope} {name} Given"),
        (2, _) => format!("Set {scope} {name} Default"),
        (3, _) => format!("Set {scope} {name} Current"),
        (5, _) => format!("Reset One {name}"),
        (6, _) => "Reset All".to_owned(),
        (other, _) => format!("setting statement {other}"),
    }
}

/// Marks that the statement must have for what it is.
pub(crate) fn marks(name: &str, node: &Value) -> Marks {
    match name {
        "VacuumStmt" if node["is_vacuumcmd"].as_bool() == Some(true) => Marks::ALONE,
        "ClusterStmt"
        | "CreateTableSpaceStmt"
        | "DropTableSpaceStmt"
        | "CreateSubscriptionStmt"
        | "DropSubscriptionStmt"
        | "ReindexStmt" => Marks::ALONE,
        "IndexStmt" if node["concurrent"].as_bool() == Some(true) => Marks::ALONE,
        "CreatedbStmt" | "DropdbStmt" => Marks::ALONE | Marks::EMPTY_DATABASE,
        "AlterSystemStmt" => Marks::ALONE | Marks::DEFAULTS,
        "AlterDatabaseSetStmt" | "AlterRoleSetStmt" => Marks::DEFAULTS,
        "DropStmt" => dropped(node),
        "RenameStmt" => of_an_object(number(node, "rename_type"), true),
        "AlterOwnerStmt" | "AlterObjectSchemaStmt" => of_an_object(number(node, "object_type"), false),
        "CreateFunctionStmt"
        | "AlterFunctionStmt"
        | "CreateTrigStmt"
        | "CreateEventTrigStmt"
        | "AlterEventTrigStmt"
        | "CreateExtensionStmt"
        | "AlterExtensionStmt"
        | "AlterExtensionContentsStmt"
        | "ViewStmt"
        | "RuleStmt"
        | "DefineStmt"
        | "CreateCastStmt"
        | "CreateDomainStmt"
        | "CreatePolicyStmt"
        | "AlterPolicyStmt"
        | "CreatePlangStmt"
        | "CreateTransformStmt"
        | "AlterOperatorStmt"
        | "CreateOpClassStmt"
        | "CreateConversionStmt"
        | "CreateEnumStmt"
        | "CompositeTypeStmt"
        | "CreateRangeStmt"
        | "AlterDomainStmt"
        | "AlterEnumStmt" => Marks::ROUTINES,
        "AlterTableStmt"
        | "CreateForeignTableStmt"
        | "CreateSchemaStmt"
        | "ImportForeignSchemaStmt"
        | "DropOwnedStmt" => Marks::NONE,
        _ => Marks::NONE,
    }
}

/// What is dropped, and whether CONCURRENTLY.
fn dropped(node: &Value) -> Marks {
    let alone = if node["concurrent"].as_bool() == Some(true) { Marks::ALONE } else { Marks::NONE };
    alone | of_an_object(number(node, "remove_type"), false)
}

/// By libpg_query's numbers of PostgreSQL's ObjectType.
fn of_an_object(number: usize, renamed: bool) -> Marks {
    use pg_query::protobuf::ObjectType as It;
    let Ok(object) = It::try_from(i32::try_from(number).expect("small")) else { return Marks::NONE };
    match object {
        It::ObjectFunction
        | It::ObjectProcedure
        | It::ObjectRoutine
        | It::ObjectTrigger
        | It::ObjectEventTrigger
        | It::ObjectExtension
        | It::ObjectAggregate
        | It::ObjectOperator
        | It::ObjectCast
        | It::ObjectRule
        | It::ObjectView
        | It::ObjectMatview
        | It::ObjectType
        | It::ObjectDomain
        | It::ObjectPolicy
        | It::ObjectLanguage => Marks::ROUTINES,
        It::ObjectTable | It::ObjectForeignTable | It::ObjectSchema | It::ObjectIndex => Marks::RELATIONS,
        It::ObjectDatabase if renamed => Marks::ALONE | Marks::EMPTY_DATABASE,
        _ => Marks::NONE,
    }
}

/// What stands anywhere below: the names of functions that are called, of relations, and whether anything is temporary.
#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) called: Vec<String>,
    pub(crate) named: Vec<String>,
    pub(crate) marks: Option<Marks>,
    pub(crate) set_configs: Vec<SetConfig>,
    /// A type is named so: with its modifiers it looks like a call.
    pub(crate) has_type_set_config: bool,
}

/// A call of set_config: what its arguments are that are literals.
#[derive(Debug)]
pub(crate) struct SetConfig {
    pub(crate) name: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) local: Option<bool>,
}

impl SetConfig {
    /// By the arguments of a call.
    fn of(arguments: &[Value]) -> SetConfig {
        let literal = |at: usize| arguments.get(at).map(|argument| without_casts(argument)["val"].clone());
        let string = |at: usize| literal(at)?["Sval"]["sval"].as_str().map(str::to_owned);
        // The word true is 1 or another number, false a value that is left out.
        let is_bool = |it: &Value| it.get("Boolval").is_some();
        let local = literal(2).filter(is_bool).map(|it| it["Boolval"]["boolval"].as_bool() == Some(true));
        SetConfig { name: string(0), value: string(1), local: local.filter(|_| arguments.len() == 3) }
    }
}

fn without_casts(argument: &Value) -> &Value {
    match named(argument) {
        Some(("TypeCast", cast)) => without_casts(&cast["arg"]),
        Some(("AConst", constant)) => constant,
        _ => &Value::Null,
    }
}

impl Inside {
    pub(crate) fn walk(&mut self, value: &Value) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.walk(value)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.node(name, field);
                    self.walk(field);
                }
            }
            _ => {}
        }
    }

    fn node(&mut self, name: &str, node: &Value) {
        self.has_type_set_config |= strings(&node["names"]).last().is_some_and(|name| name == "set_config");
        match name {
            // What has a form of its own in the grammar is not written as a call.
            "FuncCall" if number(node, "funcformat") != 2 => {
                let names = strings(&node["funcname"]);
                if names.last().is_some_and(|name| name == "set_config") {
                    self.set_configs.push(SetConfig::of(node["args"].as_array().map_or(&[], Vec::as_slice)));
                }
                self.called.extend(names.last().filter(|_| !is_of_the_grammar(node, &names)).cloned());
            }
            "RangeVar" | "relation" | "rel" if node["relname"].is_string() => {
                self.named.push(text(node, "relname"));
                let schema = text(node, "schemaname");
                let is_temporary =
                    text(node, "relpersistence") == "t" || schema == "pg_temp" || schema.starts_with("pg_temp_");
                self.mark(if is_temporary { Marks::TEMPORARY } else { Marks::NONE });
            }
            "into_clause" if !node.is_null() => self.mark(Marks::RELATIONS),
            _ => {}
        }
    }

    fn mark(&mut self, marks: Marks) {
        self.marks = Some(self.marks.unwrap_or(Marks::NONE) | marks);
    }
}

/// Calls that the grammar makes of other words: COLLATION FOR, AT TIME ZONE, OVERLAPS, and the names of old.
fn is_of_the_grammar(node: &Value, names: &[String]) -> bool {
    let is_row = node["args"].as_array().is_some_and(Vec::is_empty) && names.len() == 1;
    names.first().is_some_and(|name| name == "pg_catalog")
        && names.len() == 2
        && !is_row
        && [
            "timezone",
            "overlaps",
            "pg_collation_for",
            "like_escape",
            "similar_to_escape",
            "normalize",
            "is_normalized",
            "xmlexists",
            "system_user",
            "position",
            "substring",
            "overlay",
            "btrim",
            "ltrim",
            "rtrim",
            "extract",
            "date_part",
        ]
        .contains(&names[1].as_str())
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(named).filter_map(|(_, string)| string["sval"].as_str().map(str::to_owned)).collect()
}

/// A node and the name of its sort.
pub(crate) fn named(node: &Value) -> Option<(&str, &Value)> {
    let (name, node) = node["node"].as_object()?.iter().next()?;
    Some((name, node))
}

fn one_or_all(node: &Value, field: &str) -> String {
    let name = text(node, field);
    if name.is_empty() { "All".to_owned() } else { format!("One {name}") }
}

fn text(node: &Value, field: &str) -> String {
    node[field].as_str().unwrap_or_default().to_owned()
}

fn number(node: &Value, field: &str) -> usize {
    node[field].as_u64().unwrap_or_default() as usize
}
