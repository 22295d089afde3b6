//! The syntax of the regexes in a config file: RE2's, as far as the `regex` crate reads it in the same way.
//!
//! Both engines find the same leftmost-first match. Four escapes are ASCII in RE2 and Unicode here: `\d`,
//! `\s`, `\w` and `\b`; they are written as ASCII. Any other construct that the two read differently, or
//! that RE2 does not have, is refused by its name. So a pattern never silently means something else.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetBinaryOp, ClassSetItem, ClassUnicode,
    ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind,
    Repetition, RepetitionKind, RepetitionRange, Span, Visitor,
};

/// The most that a counted repetition may ask for in RE2, also when counts are nested.
const MOST_REPETITIONS: u32 = 1000;

/// The pattern with the meaning that it has in RE2, or why there is none.
pub(super) fn checked(pattern: &str, nest_limit: u32) -> Result<String, String> {
    let tree = ParserBuilder::new().nest_limit(nest_limit).build().parse(pattern);
    let tree = tree.map_err(|error| error.kind().to_string())?;
    ast::visit(&tree, Check { pattern, ascii: Vec::new(), factor: Vec::new() })
}

struct Check<'p> {
    pattern: &'p str,
    /// Replacements of parts of the pattern, in their order.
    ascii: Vec<(Span, &'static str)>,
    /// The counts of the repetitions around the current item.
    factor: Vec<u32>,
}

impl Visitor for Check<'_> {
    type Output = String;
    type Err = String;

    fn finish(self) -> Result<String, String> {
        let (mut written, mut end) = (String::with_capacity(2 * self.pattern.len()), 0);
        for (span, ascii) in self.ascii {
            written.push_str(self.pattern.get(end..span.start.offset).unwrap_or_default());
            written.push_str(ascii);
            end = span.end.offset;
        }
        written.push_str(self.pattern.get(end..).unwrap_or_default());
        Ok(written)
    }

    fn visit_pre(&mut self, item: &Ast) -> Result<(), String> {
        match item {
            Ast::Flags(set) => flags(&set.flags),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(set) => flags(set),
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => Ok(()),
            },
            Ast::Literal(character) => literal(character),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundary => self.write(assertion.span, r"(?-u:\b)"),
                AssertionKind::NotWordBoundary => self.write(assertion.span, r"(?-u:\B)"),
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText => Ok(()),
                _ => Err(r"\<, \> and \b{...} are not assertions in RE2".to_owned()),
            },
            Ast::ClassPerl(class) => self.perl(class),
            Ast::ClassUnicode(class) => unicode(class),
            Ast::Repetition(repetition) => self.repetition(repetition),
            _ => Ok(()),
        }
    }

    fn visit_post(&mut self, item: &Ast) -> Result<(), String> {
        if let Ast::Repetition(_) = item {
            self.factor.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Literal(character) => literal(character),
            ClassSetItem::Range(range) => literal(&range.start).and_then(|()| literal(&range.end)),
            ClassSetItem::Perl(class) => self.perl(class),
            ClassSetItem::Unicode(class) => unicode(class),
            ClassSetItem::Bracketed(_) => Err(r"a [ within a class has to be written as \[".to_owned()),
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) | ClassSetItem::Union(_) => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), String> {
        Err(r"&&, -- and ~~ within a class have to be written with a backslash".to_owned())
    }
}

impl Check<'_> {
    fn write(&mut self, span: Span, ascii: &'static str) -> Result<(), String> {
        self.ascii.push((span, ascii));
        Ok(())
    }

    fn perl(&mut self, class: &ClassPerl) -> Result<(), String> {
        let ascii = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\x0C\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\x0C\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.write(class.span, ascii)
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        if let Ast::Repetition(_) = *repetition.ast {
            return Err("a repetition is repeated".to_owned());
        }
        let mut count = 1;
        if let RepetitionKind::Range(range) = &repetition.op.kind {
            let (most, canonical) = match range {
                RepetitionRange::Exactly(count) => (*count, format!("{{{count}}}")),
                RepetitionRange::AtLeast(least) => (*least, format!("{{{least},}}")),
                RepetitionRange::Bounded(least, most) => (*most, format!("{{{least},{most}}}")),
            };
            let Span { start, end } = repetition.op.span;
            let written = self.pattern.get(start.offset..end.offset).unwrap_or_default();
            if written.trim_end_matches('?') != canonical {
                return Err(format!("{written} is text in RE2: write {canonical}, or {{ as \\{{"));
            }
            count = most.max(1);
        }
        let total = self.factor.last().unwrap_or(&1).saturating_mul(count);
        if total > MOST_REPETITIONS {
            return Err(format!("counts of repetitions come to {total}, above {MOST_REPETITIONS}"));
        }
        self.factor.push(total);
        Ok(())
    }
}

fn flags(set: &Flags) -> Result<(), String> {
    let unknown = |kind: &FlagsItemKind| {
        matches!(kind, FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace))
    };
    if set.items.iter().any(|item| unknown(&item.kind)) {
        return Err("the flags of RE2 are i, m, s and U".to_owned());
    }
    Ok(())
}

fn literal(character: &Literal) -> Result<(), String> {
    match character.kind {
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            Err(r"\u and \U are not escapes of RE2: write \x{...}".to_owned())
        }
        _ => Ok(()),
    }
}

fn unicode(class: &ClassUnicode) -> Result<(), String> {
    // The parser knows other properties, too, which RE2 does not.
    let is_known = |name: &str| {
        ["gc", "sc"].iter().any(|kind| regex_syntax::parse(&format!(r"\p{{{kind}={name}}}")).is_ok())
    };
    match &class.kind {
        ClassUnicodeKind::OneLetter(_) => Ok(()),
        ClassUnicodeKind::Named(name) if is_known(name) => Ok(()),
        _ => Err(r"\p takes the name of a category or of a script".to_owned()),
    }
}

#[cfg(test)]
mod tests;
