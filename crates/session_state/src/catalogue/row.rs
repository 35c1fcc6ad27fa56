//! A row of the catalogue's answer, from the bytes of a DataRow.

use wire::Error;
use wire::backend::DataRow;

/// How a text meets the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Land {
    /// A parenthesis follows.
    Called,
    /// However it stands there.
    Named,
    /// However it stands there, if the text also writes.
    Writing,
    /// However it stands there, if the text also adds rows, or says DEFAULT.
    Filling,
    /// As the other: what that does when it is named, this does then, and what it does in a text that writes or fills likewise.
    Same,
    /// Nothing in a text tells that it meets it.
    Everywhere,
    /// Any text that defines something meets it.
    Definitions,
}

/// What is taken over from the other name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    All,
    /// Not what happens only in texts that write or fill.
    Reading,
    /// And nothing that is only feared: operators, casts and the functions of types are named nowhere, so a C function
    /// behind one would cast suspicion on everything.
    Known,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// What meets `name` meets `other` too.
    Edge { land: Land, take: Take, name: &'a [u8], other: &'a [u8] },
    /// A function in a language that can be read. `None`: the source is too long.
    Body { land: Land, name: &'a [u8], source: Option<&'a [u8]> },
    /// Another name for a function of the server's own.
    Internal { land: Land, name: &'a [u8], symbol: &'a [u8] },
    /// A function in C, and the extension that brought it.
    C { land: Land, name: &'a [u8], extension: Option<&'a [u8]> },
    /// A function in a language that is not known. `keeps`: in variables that live as long as the server: `%_SHARED` of PL/Perl, `GD` and `SD`
    /// of PL/Python, `GD` and `global` of PL/Tcl, `globalThis` of PL/v8.
    //= pg18 plperl-global
    //= pg18 plpython-sharing
    //= pg18 pltcl-global
    Other { land: Land, name: &'a [u8], keeps: bool },
}

impl<'a> Row<'a> {
    /// From the body of a DataRow that answers [`super::QUERY`].
    ///
    /// # Errors
    /// If it is no row of that query.
    pub(crate) fn decode(body: &'a [u8]) -> Result<Row<'a>, Error> {
        let row = DataRow::decode(body)?;
        let mut values = row.values();
        let mut next = || values.next().flatten();
        let bad = Error::BadValue("no row of the catalogue");
        let (Some(what), Some(how), Some(name), other) = (next(), next(), next(), next()) else { return Err(bad) };
        if row.len() != 4 {
            return Err(bad);
        }
        let land = land(how.first()).ok_or(bad)?;
        match (what, other) {
            (b"edge", Some(other)) => Ok(Row::Edge { land, take: take(how.get(1)).ok_or(bad)?, name, other }),
            (b"plpgsql" | b"sql", source) => Ok(Row::Body { land, name, source }),
            (b"internal", Some(symbol)) => Ok(Row::Internal { land, name, symbol }),
            (b"c", extension) => Ok(Row::C { land, name, extension }),
            (b"other", keeps) => Ok(Row::Other { land, name, keeps: keeps.is_some() }),
            _ => Err(bad),
        }
    }
}

fn land(letter: Option<&u8>) -> Option<Land> {
    Some(match letter? {
        b'c' => Land::Called,
        b'n' => Land::Named,
        b'w' => Land::Writing,
        b'f' => Land::Filling,
        b's' => Land::Same,
        b'e' => Land::Everywhere,
        b'd' => Land::Definitions,
        _ => return None,
    })
}

fn take(letter: Option<&u8>) -> Option<Take> {
    Some(match letter? {
        b'a' => Take::All,
        b'r' => Take::Reading,
        b'k' => Take::Known,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::HEADER_LEN;
    use wire::backend::encode_data_row;

    fn body(values: &[Option<&str>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_data_row(&mut out, values.iter().map(|value| value.map(str::as_bytes)));
        out.split_off(HEADER_LEN)
    }

    #[test]
    fn rows_as_the_query_has_them() {
        let edge = body(&[Some("edge"), Some("wa"), Some("t"), Some("nextval")]);
        let expected = Row::Edge { land: Land::Writing, take: Take::All, name: b"t", other: b"nextval" };
        assert_eq!(Row::decode(&edge), Ok(expected));
        let long = body(&[Some("plpgsql"), Some("c"), Some("f"), None]);
        assert_eq!(Row::decode(&long), Ok(Row::Body { land: Land::Called, name: b"f", source: None }));
        let own = body(&[Some("internal"), Some("c"), Some("f"), Some("int4eq")]);
        assert_eq!(Row::decode(&own), Ok(Row::Internal { land: Land::Called, name: b"f", symbol: b"int4eq" }));
        let c = body(&[Some("c"), Some("n"), Some("f"), Some("hstore")]);
        assert_eq!(Row::decode(&c), Ok(Row::C { land: Land::Named, name: b"f", extension: Some(b"hstore") }));
        let other = body(&[Some("other"), Some("c"), Some("f"), None]);
        assert_eq!(Row::decode(&other), Ok(Row::Other { land: Land::Called, name: b"f", keeps: false }));
    }

    #[test]
    fn everything_else_is_refused() {
        let rows: [&[Option<&str>]; 9] = [
            &[],
            &[Some("edge")],
            &[Some("edge"), Some("wa"), Some("t")],
            &[Some("edge"), Some("wa"), Some("t"), None],
            &[Some("edge"), Some("wx"), Some("t"), Some("u")],
            &[Some("edge"), Some("w"), Some("t"), Some("u")],
            &[Some("edge"), Some(""), Some("t"), Some("u")],
            &[Some("plperl"), Some("c"), Some("t"), Some("u")],
            &[Some("other"), Some("c"), Some("t"), None, None],
        ];
        for row in rows {
            assert!(Row::decode(&body(row)).is_err(), "{row:?}");
        }
        let whole = body(&[Some("edge"), Some("wa"), Some("t"), Some("nextval")]);
        for len in 0..whole.len() {
            assert!(Row::decode(&whole[..len]).is_err(), "{len}");
        }
    }
}
