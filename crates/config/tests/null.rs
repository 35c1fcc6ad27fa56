//! Rows of SHOW CONFIG without a value are NULL, as PgBouncer's are, and not an empty text.

use config::{ConfigRow, load_with};

fn row(ini: &str, key: &str) -> ConfigRow {
    let read = |_: &str| Ok(ini.as_bytes().to_vec());
    let config =
        load_with("weir.ini", 2, config::Built::default(), &read).unwrap_or_else(|problems| panic!("{problems:#?}"));
    config.rows.into_iter().find(|row| row.key == key).expect("a setting")
}

#[test]
fn a_setting_without_value_and_default_is_null() {
    let values = |ini: &str, key: &str| {
        let ConfigRow { value, default, .. } = row(ini, key);
        (value, default)
    };
    let nothing = "[databases]\n[pgbouncer]\n";
    let text = |text: &str| Some(text.to_owned());
    for key in ["auth_user", "auth_file", "auth_dbname", "auth_ident_file", "user", "client_tls13_ciphers"] {
        assert_eq!(values(nothing, key), (None, None), "{key}");
    }
    assert_eq!(values(nothing, "verbose"), (text("0"), None), "a number is never NULL");
    assert_eq!(values(nothing, "auth_hba_file"), (text(""), Some("")), "its default is an empty text");
    assert_eq!(values(nothing, "listen_port"), (text("6432"), Some("6432")));
    assert_eq!(values("[databases]\n[pgbouncer]\nuser = nobody\n", "user"), (text("nobody"), None));
    assert_eq!(values("[databases]\n[pgbouncer]\nuser =\n", "user"), (text(""), None), "it was set to nothing");
}
