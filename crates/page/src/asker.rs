//! Who asks, and whether an order may be theirs: what requests of `/api` have to show before they are looked at.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use monitor::Peer;

use crate::answers::refused;
use crate::sessions::Name;
use crate::{Rights, Shared, login, origin};

/// Who asks: a user of the console, through a script of the page. Nothing here is answered without.
pub(crate) struct Asker {
    pub(crate) user: String,
    pub(crate) rights: Rights,
    pub(crate) session: Name,
}

impl FromRequestParts<Shared> for Asker {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Asker, Response> {
        if !origin::is_own_question(&parts.headers) {
            return Err(refused(StatusCode::FORBIDDEN, "it was not this page that asked"));
        }
        let from = parts.extensions.get::<Peer>().and_then(|peer| peer.address);
        match login::who(shared, &parts.headers, from) {
            Some((session, user, rights)) => Ok(Asker { user, rights, session }),
            None => Err(refused(StatusCode::UNAUTHORIZED, "log in first")),
        }
    }
}

/// An administrator who orders something, by this very page.
pub(crate) struct Admin {
    pub(crate) user: String,
}

impl FromRequestParts<Shared> for Admin {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Admin, Response> {
        let Asker { user, rights, .. } = Asker::from_request_parts(parts, shared).await?;
        if !origin::is_own_change(&parts.headers) {
            return Err(refused(StatusCode::FORBIDDEN, "it was not this page that asked"));
        }
        if rights != Rights::Admin {
            return Err(refused(StatusCode::FORBIDDEN, "only users in admin_users may do that"));
        }
        Ok(Admin { user })
    }
}
