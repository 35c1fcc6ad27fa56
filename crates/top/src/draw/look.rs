//! All that is known of one client, backend or row.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line as Text, Span};

use crate::looking::{Looking, Part, Presence};
use crate::screen::Screen;
use crate::text::{Side, fit, wrap};

/// Names of columns take so many columns of the screen.
const NAME_COLUMNS: usize = 18;

pub(super) fn lines(screen: &Screen, looking: &Looking, body: Rect) -> Vec<Text<'static>> {
    let columns = usize::from(body.width);
    let title = looking.subject.title();
    let mut all = match looking.presence {
        Presence::Here => vec![Text::styled(fit(&title, columns, Side::Left), Modifier::BOLD)],
        Presence::Gone => {
            vec![Text::styled(fit(&format!("{title} is gone; as seen last:"), columns, Side::Left), screen.loud())]
        }
    };
    all.extend(looking.parts.iter().flat_map(|part| of_part(part, columns)));
    let first = looking.first.min(all.len().saturating_sub(usize::from(body.height)));
    all.into_iter().skip(first).collect()
}

/// What is a sentence or more stands at the end, in full.
fn of_part(part: &Part, columns: usize) -> Vec<Text<'static>> {
    let mut lines = vec![Text::styled(fit(&part.title, columns, Side::Left), Modifier::UNDERLINED)];
    let name_columns = NAME_COLUMNS.min(columns / 3);
    for (name, value) in &part.pairs {
        for (at, piece) in wrap(value, columns.saturating_sub(name_columns + 1)).into_iter().enumerate() {
            let name = if at == 0 { name.as_str() } else { "" };
            let name = Span::styled(fit(name, name_columns, Side::Left), Modifier::DIM);
            lines.push(Text::from(vec![name, Span::raw(" "), Span::raw(piece)]));
        }
    }
    lines
}
