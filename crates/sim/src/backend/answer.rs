//! The answer to a statement that changes or shows the session's state: rows, if it returns any, and its command tag.

use wire::backend;

use super::rows;
use crate::settings::SettingRefusal;

/// One value for each column, which may be NULL.
pub(super) type Row = Vec<Option<Vec<u8>>>;

#[derive(Debug)]
pub(super) struct Answer {
    rows: Option<Vec<Row>>,
    tag: String,
}

pub(super) type Done = Result<Answer, SettingRefusal>;

impl Answer {
    pub(super) fn with_rows(tag: String, rows: Vec<Row>) -> Answer {
        Answer { rows: Some(rows), tag }
    }

    /// `described`: rows come with their description.
    pub(super) fn encode(&self, described: bool, out: &mut Vec<u8>) {
        if let Some(rows) = &self.rows {
            if described {
                rows::describe(out);
            }
            for row in rows {
                backend::encode_data_row(out, row.iter().map(Option::as_deref));
            }
        }
        backend::encode_command_complete(out, &self.tag);
    }
}

/// A command tag without rows.
pub(super) fn said(tag: &str) -> Done {
    Ok(Answer { rows: None, tag: tag.to_owned() })
}

pub(super) fn selected(values: impl IntoIterator<Item = String>) -> Done {
    Ok(counted("SELECT", values.into_iter().map(String::into_bytes)))
}

/// Rows of one column; the tag says how many.
pub(super) fn counted(tag: &str, values: impl Iterator<Item = Vec<u8>>) -> Answer {
    let rows = one_column(values);
    Answer::with_rows(format!("{tag} {}", rows.len()), rows)
}

pub(super) fn one_column(values: impl Iterator<Item = Vec<u8>>) -> Vec<Row> {
    values.map(|value| vec![Some(value)]).collect()
}

pub(super) fn refused<T>(code: &'static str, text: impl Into<String>) -> Result<T, SettingRefusal> {
    Err((code, text.into()))
}

pub(super) fn truth(is: bool) -> String {
    if is { "t" } else { "f" }.to_owned()
}
