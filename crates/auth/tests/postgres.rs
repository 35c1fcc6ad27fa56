//! Against what others made: verifiers stored by PostgreSQL 15, and the client of the postgres-protocol crate.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked as tests as such")]

use auth::{Keys, ScramError, Secret, ServerExchange, Verifier, verify_plain};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

/// Passwords and what `create role … password …` put into pg_authid, in a UTF8 database.
#[rustfmt::skip]
const STORED: &[(&str, &str)] = &[
    ("pencil", "SCRAM-SHA-256$4096:2so+DJPRYP0mxakN+0VfcA==$9KMUKcBlkyBz4RfwKnjOAYRNfi+gBJ74jhj780tW7W0=:oCiFO6N/8oR2E57yq3Mtr8UbumnysEkF/gZHViYUFKM="),
    (" spaces inside ", "SCRAM-SHA-256$4096:JKztS9naRXYq5aAnjmO/vQ==$TbP8nLuTGcwqIP7vnLx1Pe4SZ5AtP3XZT++1aodDA2s=:6DoC2QWeKKcNy0eUGCg4uejS+75mVKssOqy2N32t3r8="),
    ("I\u{ad}X", "SCRAM-SHA-256$4096:hVB7ORK+GXSK8aYcxJIe/A==$F/vTqwvEzCI47asztTI0UssO+ktuacyNJUdWsmAfEYk=:V/qRsxPgPk8TxNhlGYTmBayvSw3pm9256r+SJHLeKM4="),
    ("\u{aa}", "SCRAM-SHA-256$4096:38PTjJJY5x0f95LmUHip8Q==$Eg+5/fXpk/KUIlkZ3pwI6MqEe0Puvfag7yvjest3iTI=:tAMYL0YUR924+QgR5oYinwi7tDJW8PUTBbQfqWV59lA="),
    ("\u{2168}", "SCRAM-SHA-256$4096:znTKmxrWtXuZE0yx9tiz4A==$nCHSEg7zrT4dZ2jlXrUnot1cXaTICfOFBC1hZiGYe3E=:NyH0iueRFTQBfvK7TiVxEnM6srkQTFwNmeRD/T35jM0="),
    ("e\u{301}", "SCRAM-SHA-256$4096:o4BdIM5hUILBRpH41z3e7Q==$th6TcIyzdNb9SEVz9KC6NJh/t2pOOrsVbTp5nu80BFE=:tCXWNwPftVSW8UeuBDvQ/CNe4Z8jJXguNPsr3zPg9cw="),
    ("\u{e9}", "SCRAM-SHA-256$4096:TVnEEVK7DzrFmQjEyKmQYw==$++PeiPSVmkh0qJ1nxBf6G0JgblRqrP/I1+MpzlSQWXI=:Y30tA5lhg//H27TR+vwhi0u1DCs2HkYQ9uL91fsMMG8="),
    ("a\u{a0}b", "SCRAM-SHA-256$4096:MsFVgqUKNDHYKqi2kKlYbw==$2TjO7Ya7XLycE3RQo+6fXbeNDZbFmixuzzg8BJarisM=:zwC4VaYsFfxj7qNgYP5c7Vt+gWfAIxjqP5+9n+pwcnQ="),
    ("a\u{200b}b", "SCRAM-SHA-256$4096:g9xEXoF0n4fbDaql6vxrHg==$UI83ma35Os1FWZM/OIKMaLyIB+8tTJehi39iN3xhDFs=:C3qhXpE+LMS2IELybUAchk25HD2wvasn559dzG8hCyQ="),
    ("\u{ff21}\u{ff42}", "SCRAM-SHA-256$4096:Z1+EXPTmm5XsZyxG9MJEPg==$QCEZzbVWUUt0fccb+wKJGQ/scaP6OdKpUGcb+l41zRc=:EIMe9TmA+Dk6ri3/dXeWAfjRyYHzOPu7skW9htf+I3A="),
    ("\u{627}\u{628}", "SCRAM-SHA-256$4096:RjUxxCQnfyD60wa8v07GGQ==$PkZSKj8cto0zGRcjQ5fJ0Ur6jx4yfRWSqiFYIiMUsag=:5vnajhKgKAVgumkRIIl+79HJrZbzaN+FdIFLi2GBsp4="),
    ("\u{627}x\u{628}", "SCRAM-SHA-256$4096:JK5jZXt8lSGIEbM88310Qw==$l1NvTmI1D6g2595ZgP65Bb192MU8ZL4m0502uJKZK/A=:+xeG5jXSRenPlkq+IQN1GWZ3bbjCtDfezdPXtM9ElgA="),
    ("\u{627}1", "SCRAM-SHA-256$4096:PSHdLSCZYYibRCjfdDsWKw==$QwkIyVEmZYJDDmuqaY9Ia1QYMAGyc0oRMP9BRoY92TE=:hMF1tQRnAARS0vrc7LNMrr0U2ulKHYgQogEPHmpOGoI="),
    ("bell\u{7}\u{e9}", "SCRAM-SHA-256$4096:rjVT3gxFWIC2hHq47MpVAg==$g5EJZQkhbycg/7hZVryGdxXN+fohtu0fHj9dXbtgxes=:grJhRb7W9kO7l1uVxuOzGN5L9jvELcvyeLSor5Dbebg="),
    ("bell\u{7}", "SCRAM-SHA-256$4096:TR3ujjz1VaaV22x0oRp4DA==$a6h7aRRyf3fgEybW4/v5WMWY1zwA4evKQ3u5hCW4GF4=:kCBWJkIecd/vaQNPnl+0BMzzj1H79lpzhrDhh0ByPbk="),
    ("\u{221}", "SCRAM-SHA-256$4096:7Lrne802X41ovzX1B9rVNw==$GhG1Vf2TEib/PATgZWhx54qpn/ySzKEuciLlk/9kOaE=:YV9kkBVL1NcUFAGWFn7A3IMzTO//TOPxQI4aXeg3lQw="),
    ("\u{1f600} emoji", "SCRAM-SHA-256$4096:jAtTZeDg97bRcxuI0sENWQ==$XEqF1pT0ZNQ5nKewOoqoPiN+YSUMe94JcHOP1+hJlM0=:uyfPit1RpbXc3iTng0gEwd4sleRI//t8EtCTiUlOWDQ="),
    ("\u{65e5}\u{672c}\u{8a9e}\u{30d1}\u{30b9}\u{30ef}\u{30fc}\u{30c9}", "SCRAM-SHA-256$4096:iUWIT5LKRQmNdNyWfTZycQ==$Swp2VRmrXdWbW/4qIULmJqZi50qz7AX+oYoxWzbI930=:6cjQbahQVg1UVhXrEoU8qXjDJ4d6D4UVpa6zedy63Uo="),
    ("\u{1e9b}\u{323}", "SCRAM-SHA-256$4096:XqLc6Tg6KUZmiK5rnj0M/A==$cnuNE6NacnAcKWorBup6B0a+nkcfCVNuay8B/kQMb3A=:aaVzysBqHLmbj7qbpZ/q34EjOZDJAXDnBAEqdY0FI4o="),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "SCRAM-SHA-256$4096:rQtvhHSVCsJxRHlnVfDtbQ==$p9HTyTCFIzHpnwr/3xgoy8AgYGpLhapubMQoWY6paNM=:efI4rkT6Esw9QgoOb9itTPT32KL6tdeQq22KSeLzVvQ="),
    ("\u{e000}private", "SCRAM-SHA-256$4096:khHC8xbpzGoAh3FLXXZ0qw==$TgCTn7WJo6Hy77tRGsyMGKI5XJgADsaegrhqF7IrRJU=:Beo4V/R91my12NS5MhlELnHYg6ks5RO+xnxcGtuLqtg="),
    ("\u{fb01}sh", "SCRAM-SHA-256$4096:JmoQPUYCBs+t+oPSeG2zMg==$Hkb2/awEVmS1kolfx3e0JyzEhaztF2R2hKFeCQEWzB0=:EcbeS11LCj3V8mY7XyZ9MKE0PZys7JEQc7tCvq8V1Ao="),
    ("\u{3c2}", "SCRAM-SHA-256$4096:T8OvioMeu9VdoVIksXT3ag==$dQ8tfFmzgQSYkVJL5DBmuUOPNcnAMesfoo5TSRXGmNQ=:iaL+jc4uEvRSk1MGV04vQRsgqRQtuMnUvLVkKqsy72U="),
    ("\u{2028}", "SCRAM-SHA-256$4096:yWzQXh2x98PR0xqLE9QcEA==$h9K6m4ZrF3MBteCzDRudggG9XsaZH8XMDcu4V0prGZI=:QAx+Uhhis51L3GyniZe/7Y5Eb7palXc/Heu0YNdxyzg="),
    ("tab\u{9}x", "SCRAM-SHA-256$4096:gKDllIxkpu/AHAy4vCMYng==$H2qNSJqSYes4B5OfaQ1HbMnNbHQKKyihJswVqkn3Dbc=:P9FWi/4C/b3IkBfWscyofOLCHhgZH71j8DFcZ0h9O5k="),
    ("\u{627}1\u{a0}\u{627}", "SCRAM-SHA-256$4096:T9a3se11boyDblblnwoo1A==$m0tlmZs5TWakHY1/VAQeIW24i+iiiV3kXP3uTpvHxss=:+MamhUnNTFTOAjd69B4HD4ixS3BVugsshZrj08awboI="),
    ("\u{627}x\u{a0}\u{627}", "SCRAM-SHA-256$4096:YR7/zMW6ZqYXja1ONnw4Iw==$7+DbjSArLpACmdvdiWuHuLY7bnVeIGMBwGmh2QvQcdI=:IAVPoMCEnFetdRJR38Egewh7mMBgBqKGaKCoKYQtYjQ="),
    ("\u{627}\u{300}\u{a0}\u{627}", "SCRAM-SHA-256$4096:Y5oJAWmvGa7J9tj2+UxmSw==$Hh2ZPRoeqIvaoc7kY8f3oDA2ISSAgtDN07oO7Q2ONMg=:hwGTx95jYyCb2JMdrO7YtO1cFxoWYB+bMa4uZoF7ybw="),
    ("\u{627}\u{a0}1", "SCRAM-SHA-256$4096:93GYBJquj9bevG2zoI9z1g==$fg35kAVWeC//laC6s3mVcjjXezp4Vs6W4qy+iLqfzfA=:80P43PY7/Ygd0C9ma1Q+KIT0ItAJXOwwCRrkDLvjJZI="),
    ("\u{a0}\u{627}", "SCRAM-SHA-256$4096:JB/L3cwbVJX35sVuFNaTkA==$C+yguuSX1pIC6Dj1e65r+eahTPFR9nvy38OlLD3IaVg=:d8uDiXEENP8qh1cmwvwAkHISMMhPZRzUHFu+/K4wgKA="),
    ("\u{fdfa}", "SCRAM-SHA-256$4096:4qBZAf+kwRSVQ/Q7TbMcAg==$Q9xuhc15+AuzVJx6jBb9mq6rvgzmkqBJW0Q/Jw8IiaE=:VxzBLRRAqJxlffhiJ3HANx8Q/YUb5TjV1VbPI802s4k="),
    ("\u{2f868}", "SCRAM-SHA-256$4096:XywagZtA6M1guu1CKHqVLg==$srUd3bUyYbNbpxRZasQb5Ytj+b+sc0bh0Aw8XP63LUY=:9bRBWJyPVAfKh2OfmZ2hj3gyKG0iHb9UeiA6xrewHUU="),
    ("\u{e33}\u{a0}", "SCRAM-SHA-256$4096:GMqWzFgQz+b3w1MJ/074WA==$WE8f8qId3ElnVl6XOSS3ZPxnim3rZskPZ/sodFdoWOs=:QP7EsVwNLf+pzF1pWTZ4DDhOmi700UU4m6lTZp9QpwI="),
    ("\u{1100}\u{1161}\u{11a8}", "SCRAM-SHA-256$4096:zZWK2agfh9OFo381hsPJHg==$jqdC1CWw8E9abKRbLtyizEGjhPK7WtGmiEUKNs7rDOM=:KZtQRTlCVtu0eHfiZxiYKop+uBic2ahpB8IXjJL8wyI="),
    ("a\u{323}\u{307}\u{a0}", "SCRAM-SHA-256$4096:M3IehN5MeL2SEkHMxuXmbA==$UGFZAY0TeEC1s/Hm1DlhxS0CMZAjgrgCNWdda7pEiME=:yuduONn/ccEZWE9C2wHGaJePWsfUhIy3Aq1etzuQYQM="),
    ("a\u{307}\u{323}\u{a0}", "SCRAM-SHA-256$4096:iFORK/pKttDInn3+gzCcng==$OPDJC9OiwYcXll5V/RKy9gKs8B70s5WZWzFGfptOX5g=:zf4SHwQKTlG1b/J4+bLhev3Ekqu9FVcCn8MJiCeKlHU="),
    ("\u{180e}\u{a0}", "SCRAM-SHA-256$4096:2QDTGPlSIL2NVlR5dVCy4g==$R+nipQ/jIkQ98oPyEUHQYnizsr3vsihpy/xYvmuSx8w=:l4rv9MmI/QhD93XIHX3+Z0zaivlofAHQVKQwpvCTImU="),
    ("\u{e0001}\u{a0}", "SCRAM-SHA-256$4096:ZNEOj5xCJ0afbLx8D2mLDQ==$VzVisbzlFDYASb7ugH5uEWgnVzpWLJmOW/q9Ntse/Tw=:7uhE1Xz9D+XCRaJTxOAuZ4F2LpiFChER3WBU1kTVhZE="),
    // Characters that forbid SASLprep, each with a U+A0 that would become a space.
    ("\u{221}\u{a0}", "SCRAM-SHA-256$4096:prizu6ucBhJbCMnLy8sEpw==$+OpOUXRL7Vh1a/vMpCJBLgoQt8SXCaqEFN4dBax5qzw=:BZ7LH+eMejQo1wjUr1MiRO3HnbEboONGWiTFIMHS+i4="),
    ("\u{e000}\u{a0}", "SCRAM-SHA-256$4096:MgwMn8vscLK+zLagdAmKig==$wDqwv1MKzbgwAFSWnNXp6gxWNJl+1fzK8UnBxGs8QiQ=:6nXgo6zn9aaZPrGQJdBc32uMDZoR7HHDgt+7gwma5KQ="),
    ("\u{fffd}\u{a0}", "SCRAM-SHA-256$4096:XrgJtsBHMcymcWOl5MVU2A==$lOxX0+gUbhhG/Ca4Usz2LsSfIjWT9wOmNNaz7CicSYw=:MLUkNBfVTq26CwD9sP20t9+D0JCAIqf7WA6cetj6Les="),
    ("\u{fdd0}\u{a0}", "SCRAM-SHA-256$4096:lpxxwlL1HQ7wImCCA/0YzQ==$ibsL5UFO/4sLS3NqlZzgO0iDLXQpDsbUsXvv1p4zjCo=:G3USbJyEnMtxFPN9/bMeG+tLZFjPDv7Oh+ZzXS3vcnE="),
    ("\u{2ff0}\u{a0}", "SCRAM-SHA-256$4096:in07FPgio/RxsOyehd9+kg==$wKpba7r2XH6aVHUbBIWlnRYZCzoYUzVXkNFo6J6fvKQ=:CAl27TpufrrkK0MFi3dxTBaBPzb+N5jyMO6ZmQ1TSuk="),
    ("\u{1f600}\u{a0}", "SCRAM-SHA-256$4096:Hi9avlayv0uqxzWAXd2Rxg==$XXC0QiysX387GD/vr0+95YzVez+so6g0k0LFLXvV57U=:0Oc5VORk6zQBQvGIQIXe6pKQ5xhV+k8GZfxDRJlzF9M="),
];

/// The same, where postgres-protocol hashes another text than PostgreSQL does: it forbids characters after
/// normalisation instead of before, by the bidirectional classes of a later Unicode, and lets a password vanish.
#[rustfmt::skip]
const STORED_APART: &[(&str, &str)] = &[
    ("\u{ad}", "SCRAM-SHA-256$4096:jtAEmbfak6Xil9uVP3voDw==$uer0yFISR4HnvdnAMZMSdjdzz89z/quOEbudiQ91XdE=:rWOVw+mVJ2AaqiYP/YxXRULoZNPStkdon0GhfKxFP8s="),
    ("a\u{340}", "SCRAM-SHA-256$4096:W28zcrZT6D1Np0YKZW6tkQ==$3aPrQozKfCaH+7hCmk56KSnC39ScHRxHP/QNQnheMVU=:NPaIW3XYnko4o9We1jS34P2zqxvGPxis77aq13PGFdw="),
    ("\u{627}\u{2801}\u{a0}\u{627}", "SCRAM-SHA-256$4096:bfXqe0OtPryW7taPwafgQA==$V2bbnHitKAHCjJnCrsCb/T3e8JLY3RghC9HYBlYlY+w=:YSyc/ay9EObkIOhR5fUfGhWTrD2fsECSv+2ePS7pzZQ="),
    ("\u{627}\u{2132}\u{a0}\u{627}", "SCRAM-SHA-256$4096:zExSr42kSCqa1WBxpr76xA==$u28oHIoZRrz8rVamkJVAGfYMDkaTvFJW+Dtjot1D0cE=:RbWBvvObB5SZntr4HyVbLDqgsuHs5/0zIgTN1Baw9Us="),
    ("\u{627}\u{17b4}\u{a0}\u{627}", "SCRAM-SHA-256$4096:CYZELTloXYoDJjFlf5fmxA==$emcAX4NqPIhSPG+grx3A2cNVQ8qpHrE58Y7cbl/aWHA=:ggrzg0lMWIDfC2mhQBThr8498vK2w9bdb6T+jeIJoZE="),
    ("\u{627}\u{2100}\u{a0}\u{627}", "SCRAM-SHA-256$4096:z8XIwb46QzAbIVsq2pTOWA==$cRUYErqBqWB0phCom0JXP2eXONL3Bn6YpwlX2kt6dCE=:tQwB7Kjy3bvEQzWxPCecdFWc4bNJAfn9lfnoHCn2ThI="),
    ("\u{627}\u{cbf}\u{a0}\u{627}", "SCRAM-SHA-256$4096:vjXh2vfbxKJ63VyMnuQoXA==$a/t04/kl4whwPHmg27rrQrUSoq4I+pOBUmZQ6G75nX8=:ptLRTEWUy+jZv1eneg1FGOI3swpAlHlDDmJU3yTY+lE="),
    ("\u{627}\u{302e}\u{a0}\u{627}", "SCRAM-SHA-256$4096:UsmlJx6CXkfzYe8ZKOmNXQ==$wTn6Gd17Psc5cQXKxJjK/qnd0xXdDtNwEhIDbH4z8Uo=:+kV1kQ0lVI1Je4G1uRkrplqpaTq+x9p4eemBsuLbkx8="),
    ("\u{627}\u{1d6c1}\u{a0}\u{627}", "SCRAM-SHA-256$4096:GnWdpbWXO1Jt8uOqi0upjA==$2Dhj7AJYPAaoXH9lLh5Q5Sf6PNlfib9jP26Q4EczXoo=:P/cas01Zo1lcex9RT0bGRottitoOiNw5NYYySp6IPOk="),
    ("\u{340}\u{a0}", "SCRAM-SHA-256$4096:159H6OloeYIsV20Vy7UZoA==$mWVX8CweIlTrl5IvXqhQwwK41iSDAO33FpOUBIOrr44=:1SMHKankK0BL/bkSKnTwbfsawTO0iiTYv3NGsyxSA/4="),
];

#[test]
fn stored_verifiers_are_read_and_written() {
    for (password, stored) in STORED.iter().chain(STORED_APART) {
        let verifier = Verifier::parse(stored).unwrap_or_else(|| panic!("{password:?}"));
        assert_eq!(verifier.to_string(), *stored);
        let made = Verifier::derive(password, &verifier.salt, verifier.iterations);
        assert_eq!(made.to_string(), *stored, "{password:?}");
    }
}

#[test]
fn stored_verifiers_check_passwords() {
    for (password, stored) in STORED.iter().chain(STORED_APART) {
        let secret = Secret::parse(stored);
        assert!(matches!(secret, Secret::Scram(_)), "{password:?}");
        assert!(verify_plain(&secret, "u", password.as_bytes()), "{password:?}");
        let other = format!("{password}x");
        assert!(!verify_plain(&secret, "u", other.as_bytes()), "{password:?}");
    }
}

#[test]
fn spellings_of_one_password_are_one() {
    let stored = |password: &str| {
        let (_, stored) = STORED.iter().find(|(text, _)| *text == password).unwrap();
        Secret::parse(stored)
    };
    let table = [
        ("I\u{ad}X", "IX"),
        ("\u{2168}", "IX"),
        ("\u{aa}", "a"),
        ("a\u{a0}b", "a b"),
        ("\u{ff21}\u{ff42}", "Ab"),
        ("\u{fb01}sh", "fish"),
    ];
    for (one, other) in table {
        assert!(verify_plain(&stored(one), "u", other.as_bytes()), "{one:?} {other:?}");
    }
    // SASLprep refuses a control character; then the bytes count, and é is not e with an accent.
    assert!(!verify_plain(&stored("bell\u{7}\u{e9}"), "u", "bell\u{7}e\u{301}".as_bytes()));
}

#[test]
fn verifiers_of_the_oracle_are_read() {
    for (password, _) in STORED {
        let text = postgres_protocol::password::scram_sha_256(password.as_bytes());
        let verifier = Verifier::parse(&text).unwrap();
        assert_eq!(verifier.to_string(), text);
        let keys = Keys::derive(password, &verifier.salt, verifier.iterations);
        assert_eq!(keys.stored_key(), *verifier.stored_key(), "{password:?}");
        assert_eq!(keys.server_key, *verifier.server_key(), "{password:?}");
    }
}

#[test]
fn client_of_the_oracle_logs_in_at_our_server() {
    for (password, stored) in STORED {
        // Unsupported sends "n,,", unrequested "y,,": it could bind, and we do not offer it.
        for binding in [ChannelBinding::unsupported(), ChannelBinding::unrequested()] {
            let mut client = ScramSha256::new(password.as_bytes(), binding);
            let verifier = Verifier::parse(stored).unwrap();
            let (server, first) = ServerExchange::start(client.message(), verifier, &[7; 18]).unwrap();
            client.update(&first).unwrap();
            let done = server.finish(client.message()).unwrap();
            client.finish(&done.server_final).unwrap();
        }
    }
}

#[test]
fn client_of_the_oracle_with_a_wrong_password_fails() {
    let (_, stored) = STORED[0];
    let mut client = ScramSha256::new(b"pencil2", ChannelBinding::unsupported());
    let verifier = Verifier::parse(stored).unwrap();
    let (server, first) = ServerExchange::start(client.message(), verifier, &[7; 18]).unwrap();
    client.update(&first).unwrap();
    assert_eq!(server.finish(client.message()), Err(ScramError::WrongProof));
}
