//! Locators and row ids of one row.

use std::collections::HashSet;

use crate::domain::template::Template;
use crate::pg::relation::Relation;
use crate::pg::tuples::Row;
use crate::pg::value::Format;
use crate::store::locator_sql::LocatorSql;

/// A column and how its values are read.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub number: i16,
    pub format: Format,
}

/// Where a row's locators come from.
pub enum Locator {
    /// A column: one locator, or one an element of an array of text.
    Column(Field),
    /// A text with columns filled in; a NULL column makes no locator.
    Template(Template, Vec<Field>),
    /// Whatever needs SQL.
    Query(LocatorSql),
}

/// What goes with each locator of a row.
#[derive(Default)]
pub struct Extras {
    pub owns: Option<(Template, Vec<Field>)>,
    pub shares: Option<Field>,
}

impl Extras {
    /// The columns that are read.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.owns.iter().flat_map(|(_, fields)| fields).chain(&self.shares)
    }

    /// The prefix within which the row owns objects, and the value that it shares them by; empty for a NULL.
    pub fn of_row(&self, row: &Row<'_>) -> (Option<String>, Option<String>) {
        let owns = self.owns.as_ref().map(|(prefix, fields)| {
            let values: Vec<_> = fields.iter().map(|field| field.text(row)).collect();
            // A value with a slash would reach into another row's prefix.
            let values: Vec<_> =
                values.iter().map(|value| value.as_deref().filter(|value| !value.contains('/'))).collect();
            prefix.render(&values).unwrap_or_default()
        });
        (owns, self.shares.map(|field| field.text(row).unwrap_or_default()))
    }
}

/// How rows of the table are told apart in the queue and history.
pub enum RowIdColumns {
    None,
    Integer(Field),
    Text(Vec<Field>),
}

/// A row's id.
pub enum RowId {
    None,
    Integer(i64),
    Text(String),
}

/// Longer values name no object (keys have at most 1024 bytes), but data: URLs and the like.
const LONGEST: usize = 8192;

/// Whether a value may name an object at all.
pub fn is_candidate(text: &str) -> bool {
    text.len() <= LONGEST && !text.trim_ascii().is_empty()
}

impl Field {
    /// The field of a live column.
    pub fn of(relation: &Relation<'_>, number: i16) -> Option<Self> {
        Some(Self { number, format: Format::of(relation.column_type(number)?) })
    }

    /// The value's text.
    pub fn text(&self, row: &Row<'_>) -> Option<String> {
        let mut found = None;
        self.format.each_text(row.attribute(self.number)?, &mut |text| found = Some(text.to_owned()));
        found
    }
}

impl Locator {
    /// The columns that are read without SQL.
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::Column(field) => std::slice::from_ref(field),
            Self::Template(_, fields) => fields,
            Self::Query(_) => &[],
        }
    }

    /// Hands every locator of the row to `take`.
    pub fn each(&self, row: &Row<'_>, take: &mut dyn FnMut(&str)) {
        match self {
            Self::Column(field) => {
                let Some(value) = row.attribute(field.number) else { return };
                if !matches!(field.format, Format::TextArray) {
                    field.format.each_text(value, &mut |text| {
                        if is_candidate(text) {
                            take(text);
                        }
                    });
                    return;
                }
                // What stands in a row's array twice is one object.
                let mut seen = HashSet::new();
                field.format.each_text(value, &mut |text| {
                    if is_candidate(text) && seen.insert(text.to_owned()) {
                        take(text);
                    }
                });
            }
            Self::Template(template, fields) => {
                let values: Vec<_> = fields.iter().map(|field| field.text(row)).collect();
                let values: Vec<_> = values.iter().map(Option::as_deref).collect();
                if let Some(text) = template.render(&values).filter(|text| is_candidate(text)) {
                    take(&text);
                }
            }
            Self::Query(_) => {}
        }
    }
}

impl RowIdColumns {
    /// From the columns of the primary key.
    pub fn of(fields: Vec<Field>) -> Self {
        match fields.as_slice() {
            [] => Self::None,
            [field] if matches!(field.format, Format::Integer(_)) => Self::Integer(*field),
            _ => Self::Text(fields),
        }
    }

    /// The columns that are read.
    pub fn fields(&self) -> &[Field] {
        match self {
            Self::None => &[],
            Self::Integer(field) => std::slice::from_ref(field),
            Self::Text(fields) => fields,
        }
    }

    /// The id of a row.
    pub fn of_row(&self, row: &Row<'_>) -> RowId {
        match self {
            Self::None => RowId::None,
            Self::Integer(field) => row
                .attribute(field.number)
                .and_then(|value| field.format.integer(value))
                .map_or(RowId::None, RowId::Integer),
            Self::Text(fields) => {
                let parts: Vec<_> = fields.iter().map(|field| field.text(row).unwrap_or_default()).collect();
                RowId::Text(parts.join(","))
            }
        }
    }
}
