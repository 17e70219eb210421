//! The lines of the listing: every name that a user of a crate can write.
//!
//! Owns: which items are public, under which path, and the line of each. A type that is public
//! under two paths has its lines once, under the first path; the second path refers to it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Fields, Generics, ImplItem, Item, ItemImpl, TraitItem, Type};

use super::sources::{
    Definition, ModulePath, Sources, Target, attributes, defines, ident, is_hidden, is_public,
};
use super::tokens::print;
use crate::error::Error;

/// Returns the lines of the listing of a crate.
pub(super) fn of(sources: &Sources, krate: &str) -> Result<BTreeSet<String>, Error> {
    let mut listing =
        Listing { sources, lines: BTreeSet::new(), exported: BTreeMap::new(), modules: Vec::new() };
    listing.module(&ModulePath::root(krate), krate)?;
    let crates: BTreeSet<_> =
        listing.exported.keys().map(|definition| definition.module.krate.clone()).collect();
    for krate in crates {
        for (at, module) in sources.modules_of(&krate)? {
            for item in &module.items {
                if let Item::Impl(implementation) = item {
                    listing.implementation(&at, implementation)?;
                }
            }
        }
    }
    Ok(listing.lines)
}

struct Listing<'a> {
    sources: &'a Sources,
    lines: BTreeSet<String>,
    /// Each listed item, with the first path under which users can name it.
    exported: BTreeMap<Definition, String>,
    /// The modules that were listed, each with the path for users. A module is not listed twice
    /// under one path, so that the walk ends even if modules `use` each other in a circle.
    modules: Vec<(ModulePath, String)>,
}

impl Listing<'_> {
    /// Lists the items of a module under `shown`, the path that users write.
    fn module(&mut self, at: &ModulePath, shown: &str) -> Result<(), Error> {
        if self.modules.contains(&(at.clone(), shown.to_owned())) {
            return Ok(());
        }
        self.modules.push((at.clone(), shown.to_owned()));
        let module = self.sources.module(at)?;
        for item in &module.items {
            for name in names(item) {
                self.item(item, &Definition { module: at.clone(), name }, shown)?;
            }
        }
        for import in module.imports.iter().filter(|import| import.is_public) {
            for target in self.sources.resolve(at, &import.path)? {
                self.import(target, import.name.as_deref(), shown)?;
            }
        }
        for (name, _) in module.children.iter().filter(|(_, is_listed)| *is_listed) {
            let below = format!("{shown}::{name}");
            self.lines.insert(format!("pub mod {below}"));
            self.module(&at.child(name), &below)?;
        }
        Ok(())
    }

    /// Lists the target of a public `use`. `name` is the name that the `use` gives to the target,
    /// or `None` for `use …::*`. `shown` is the path of the module that has the `use`.
    fn import(&mut self, target: Target, name: Option<&str>, shown: &str) -> Result<(), Error> {
        match (target, name) {
            (Target::Module(module), None) => self.module(&module, shown),
            (Target::Module(module), Some(name)) if module.names.is_empty() => {
                self.lines.insert(format!("pub use {} as {shown}::{name}", module.krate));
                Ok(())
            }
            (Target::Module(module), Some(name)) if self.is_listed(&module)? => {
                let below = format!("{shown}::{name}");
                self.lines.insert(format!("pub mod {below}"));
                self.module(&module, &below)
            }
            // A private module of the same name as the item that is meant.
            (Target::Module(_), Some(_)) => Ok(()),
            (Target::Foreign(path), name) => {
                let name = name.unwrap_or("*");
                self.lines.insert(format!("pub use {path} as {shown}::{name}"));
                Ok(())
            }
            (Target::Item(definition), name) => {
                let module = self.sources.module(&definition.module)?;
                for item in module.items.iter().filter(|item| defines(item, &definition.name)) {
                    let renamed = name.unwrap_or(&definition.name);
                    self.item_as(item, &definition, &format!("{shown}::{renamed}"))?;
                }
                Ok(())
            }
        }
    }

    fn is_listed(&self, module: &ModulePath) -> Result<bool, Error> {
        let mut parent = module.clone();
        let Some(name) = parent.names.pop() else { return Ok(true) };
        let parent = self.sources.module(&parent)?;
        Ok(parent.children.iter().any(|(child, is_listed)| *child == name && *is_listed))
    }

    fn item(&mut self, item: &Item, definition: &Definition, shown: &str) -> Result<(), Error> {
        self.item_as(item, definition, &format!("{shown}::{}", definition.name))
    }

    /// Adds an item to the listing if it is public. `path` is the whole path under which users name
    /// it.
    fn item_as(&mut self, item: &Item, definition: &Definition, path: &str) -> Result<(), Error> {
        if is_hidden(attributes(item)) || !is_visible(item) {
            return Ok(());
        }
        if let Some(first) = self.exported.get(definition) {
            if first != path {
                self.lines.insert(format!("pub use {first} as {path}"));
            }
            return Ok(());
        }
        self.exported.insert(definition.clone(), path.to_owned());
        let krate = definition.module.krate.as_str();
        match item {
            Item::Const(item) => {
                self.line(&item.attrs, format!("pub const {path}: {}", print(&item.ty)))
            }
            Item::Static(item) => {
                self.line(&item.attrs, format!("pub static {path}: {}", print(&item.ty)))
            }
            Item::Fn(item) => self.function(&item.attrs, &item.sig, path),
            Item::Type(item) => {
                let line =
                    format!("pub type {path}{} = {}", generics(&item.generics), print(&item.ty));
                self.line(&item.attrs, line);
            }
            Item::Struct(item) => {
                let tuple = matches!(item.fields, Fields::Unnamed(_));
                let shape = if tuple { tuple_fields(&item.fields) } else { String::new() };
                let line = format!("pub struct {path}{}{shape}", generics(&item.generics));
                self.line(&item.attrs, line);
                self.derives(&item.attrs, path);
                self.fields(krate, &item.fields, path);
            }
            Item::Union(item) => self.line(&item.attrs, format!("pub union {path}")),
            Item::Enum(item) => {
                self.line(&item.attrs, format!("pub enum {path}{}", generics(&item.generics)));
                self.derives(&item.attrs, path);
                for variant in &item.variants {
                    if self.sources.is_enabled(krate, &variant.attrs) {
                        let line = format!("{path}::{}{}", variant.ident, shape(&variant.fields));
                        self.line(&variant.attrs, line);
                    }
                }
            }
            Item::Trait(item) => {
                let bounds = &item.supertraits;
                let bounds =
                    if bounds.is_empty() { String::new() } else { format!(": {}", print(bounds)) };
                self.line(
                    &item.attrs,
                    format!("pub trait {path}{}{bounds}", generics(&item.generics)),
                );
                for inner in &item.items {
                    self.trait_item(krate, inner, path);
                }
            }
            Item::Macro(item) => {
                let name = print(&item.mac.path);
                let tokens = print(without_documents(item.mac.tokens.clone()));
                self.lines.insert(format!("{path} = {name}! {{ {tokens} }}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn trait_item(&mut self, krate: &str, item: &TraitItem, path: &str) {
        match item {
            TraitItem::Fn(function) if self.sources.is_enabled(krate, &function.attrs) => {
                let line = signature(&function.sig, path, "");
                let provided = if function.default.is_some() { " { … }" } else { "" };
                self.line(&function.attrs, line + provided);
            }
            TraitItem::Const(constant) => {
                let line = format!("const {path}::{}: {}", constant.ident, print(&constant.ty));
                self.line(&constant.attrs, line);
            }
            TraitItem::Type(kind) => {
                let bounds = if kind.bounds.is_empty() {
                    String::new()
                } else {
                    format!(": {}", print(&kind.bounds))
                };
                self.line(&kind.attrs, format!("type {path}::{}{bounds}", kind.ident));
            }
            _ => {}
        }
    }

    /// Lists an `impl` of an exported type, or an `impl From` that converts an exported type into a
    /// foreign type.
    fn implementation(&mut self, at: &ModulePath, item: &ItemImpl) -> Result<(), Error> {
        let Some(own) = self.exported_name(at, &item.self_ty)? else {
            return self.conversion(at, item);
        };
        let arguments = arguments(&item.self_ty);
        let head = generics(&item.generics);
        let head = if head.is_empty() { String::new() } else { format!("impl{head} ") };
        let Some((_, implemented, _)) = &item.trait_ else {
            for inner in &item.items {
                self.associated(&at.krate, inner, &head, &format!("{own}{arguments}"));
            }
            return Ok(());
        };
        if self.is_private_trait(at, implemented)? {
            return Ok(());
        }
        let head = if head.is_empty() { "impl ".to_owned() } else { head };
        let types = item.items.iter().filter_map(|inner| match inner {
            ImplItem::Type(kind) => Some(format!("type {} = {}", kind.ident, print(&kind.ty))),
            _ => None,
        });
        let types: Vec<_> = types.collect();
        let types =
            if types.is_empty() { String::new() } else { format!(" {{ {} }}", types.join("; ")) };
        let by = reference(&item.self_ty);
        self.lines.insert(format!("{head}{} for {by}{own}{arguments}{types}", print(implemented)));
        Ok(())
    }

    /// Lists an `impl From` that converts an exported type into a type of another crate.
    fn conversion(&mut self, at: &ModulePath, item: &ItemImpl) -> Result<(), Error> {
        let Some((_, implemented, _)) = &item.trait_ else { return Ok(()) };
        let Some(last) = implemented.segments.last() else { return Ok(()) };
        let syn::PathArguments::AngleBracketed(list) = &last.arguments else { return Ok(()) };
        for argument in &list.args {
            if let syn::GenericArgument::Type(kind) = argument
                && self.exported_name(at, kind)?.is_some()
                && self.is_foreign(at, &item.self_ty)?
            {
                self.lines.insert(format!(
                    "impl {} for {}",
                    print(implemented),
                    print(&item.self_ty)
                ));
            }
        }
        Ok(())
    }

    fn associated(&mut self, krate: &str, item: &ImplItem, head: &str, own: &str) {
        match item {
            ImplItem::Fn(function)
                if is_public(&function.vis) && self.sources.is_enabled(krate, &function.attrs) =>
            {
                let line = format!("{head}{}", signature(&function.sig, own, "pub "));
                self.line(&function.attrs, line);
            }
            ImplItem::Const(constant)
                if is_public(&constant.vis) && self.sources.is_enabled(krate, &constant.attrs) =>
            {
                let line =
                    format!("{head}pub const {own}::{}: {}", constant.ident, print(&constant.ty));
                self.line(&constant.attrs, line);
            }
            ImplItem::Macro(call) => {
                let tokens = print(without_documents(call.mac.tokens.clone()));
                self.lines.insert(format!("{own} = {}! {{ {tokens} }}", print(&call.mac.path)));
            }
            _ => {}
        }
    }

    /// Returns the path under which users name a type, or `None` if the type is not exported.
    fn exported_name(&self, at: &ModulePath, kind: &Type) -> Result<Option<String>, Error> {
        for target in self.targets(at, kind)? {
            if let Target::Item(definition) = target
                && let Some(name) = self.exported.get(&definition)
            {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    fn is_foreign(&self, at: &ModulePath, kind: &Type) -> Result<bool, Error> {
        Ok(self.targets(at, kind)?.iter().any(|target| matches!(target, Target::Foreign(_))))
    }

    fn targets(&self, at: &ModulePath, kind: &Type) -> Result<Vec<Target>, Error> {
        match kind {
            Type::Reference(reference) => self.targets(at, &reference.elem),
            Type::Path(path) if path.qself.is_none() => {
                self.sources.resolve(at, &names_of(&path.path))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns whether a trait belongs to the workspace and is not exported.
    fn is_private_trait(&self, at: &ModulePath, path: &syn::Path) -> Result<bool, Error> {
        let targets = self.sources.resolve(at, &names_of(path))?;
        Ok(targets.iter().any(|target| match target {
            Target::Item(definition) => !self.exported.contains_key(definition),
            Target::Module(_) | Target::Foreign(_) => false,
        }))
    }

    fn function(&mut self, attributes: &[Attribute], function: &syn::Signature, path: &str) {
        let (parent, _) = path.rsplit_once("::").unwrap_or_default();
        let mut renamed = function.clone();
        if let Some((_, name)) = path.rsplit_once("::") {
            renamed.ident = syn::Ident::new(name, function.ident.span());
        }
        self.line(attributes, signature(&renamed, parent, "pub "));
    }

    fn fields(&mut self, krate: &str, fields: &Fields, path: &str) {
        let Fields::Named(named) = fields else { return };
        for field in named.named.iter().filter(|field| is_public(&field.vis)) {
            if let Some(name) = &field.ident
                && self.sources.is_enabled(krate, &field.attrs)
            {
                self.line(&field.attrs, format!("pub {path}::{name}: {}", print(&field.ty)));
            }
        }
    }

    fn derives(&mut self, attributes: &[Attribute], path: &str) {
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            let comma = syn::punctuated::Punctuated::<syn::Path, syn::Token![,]>::parse_terminated;
            for derived in attribute.parse_args_with(comma).into_iter().flatten() {
                self.lines.insert(format!("impl {} for {path}", print(derived)));
            }
        }
    }

    /// Adds a line to the listing unless the item is hidden. The attributes that matter to users
    /// precede the line.
    fn line(&mut self, attributes: &[Attribute], line: String) {
        if is_hidden(attributes) {
            return;
        }
        let has = |name: &str| attributes.iter().any(|attribute| attribute.path().is_ident(name));
        let marks = ["deprecated", "non_exhaustive"].into_iter().filter(|name| has(name));
        let marks: String = marks.map(|name| format!("#[{name}] ")).collect();
        self.lines.insert(marks + &line);
    }
}

/// Returns the name that an item defines in its module, as a list. The list is empty if the item
/// defines no name.
fn names(item: &Item) -> Vec<String> {
    match item {
        Item::Macro(call) if call.ident.is_none() => {
            macro_name(&call.mac.tokens).into_iter().collect()
        }
        item => ident(item).map(ToString::to_string).into_iter().collect(),
    }
}

/// Returns the name of the type that a call of a macro defines: the name after `struct` or `enum`.
/// If the call has neither keyword, returns its first name if that starts in upper case, or else
/// `None`.
fn macro_name(tokens: &TokenStream) -> Option<String> {
    let idents: Vec<_> = without_documents(tokens.clone())
        .into_iter()
        .filter_map(|token| match token {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        })
        .collect();
    let after = idents.iter().position(|ident| ident == "struct" || ident == "enum");
    match after {
        Some(at) => idents.get(at + 1).cloned(),
        None => idents.first().filter(|name| name.starts_with(char::is_uppercase)).cloned(),
    }
}

/// Returns whether an item can be named from outside its module. A call of a macro counts as
/// visible, whatever it defines.
fn is_visible(item: &Item) -> bool {
    is_public(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Union(item) => &item.vis,
        Item::Macro(_) => return true,
        _ => return false,
    })
}

/// Returns the signature of a function as text, with the path `parent` before its name.
fn signature(function: &syn::Signature, parent: &str, visibility: &str) -> String {
    let text = print(function);
    let name = function.ident.to_string();
    format!(
        "{visibility}{}",
        text.replacen(&format!("fn {name}"), &format!("fn {parent}::{name}"), 1)
    )
}

fn generics(generics: &Generics) -> String {
    let clause = generics.where_clause.as_ref().map(|clause| format!(" {}", print(clause)));
    let parameters = if generics.params.is_empty() { String::new() } else { print(generics) };
    parameters + &clause.unwrap_or_default()
}

/// Returns the generic arguments of a type as text: `<D>` of `SharedDevice<D>`.
fn arguments(kind: &Type) -> String {
    match kind {
        Type::Reference(reference) => arguments(&reference.elem),
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.map(|segment| print(&segment.arguments)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn reference(kind: &Type) -> &'static str {
    match kind {
        Type::Reference(reference) if reference.mutability.is_some() => "&mut ",
        Type::Reference(_) => "&",
        _ => "",
    }
}

/// Returns the fields of a tuple: `(pub u64)`. A private field is shown as `_`.
fn tuple_fields(fields: &Fields) -> String {
    let field = |field: &syn::Field| {
        if is_public(&field.vis) { format!("pub {}", print(&field.ty)) } else { "_".to_owned() }
    };
    format!("({})", fields.iter().map(field).collect::<Vec<_>>().join(", "))
}

/// Returns the fields of a variant of an enum as text.
fn shape(fields: &Fields) -> String {
    match fields {
        Fields::Unit => String::new(),
        Fields::Unnamed(fields) => {
            let types: Vec<_> = fields.unnamed.iter().map(|field| print(&field.ty)).collect();
            format!("({})", types.join(", "))
        }
        Fields::Named(fields) => {
            let field = |field: &syn::Field| {
                let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{name}: {}", print(&field.ty))
            };
            format!(" {{ {} }}", fields.named.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

fn names_of(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns the tokens without `#[doc …]` and comments for documentation.
fn without_documents(tokens: TokenStream) -> TokenStream {
    let mut kept = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '#'
            && let Some(TokenTree::Group(group)) = tokens.peek()
            && group.stream().to_string().starts_with("doc")
        {
            tokens.next();
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let inside = without_documents(group.stream());
                TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inside))
                    .to_tokens(&mut kept);
            }
            token => token.to_tokens(&mut kept),
        }
    }
    kept
}
