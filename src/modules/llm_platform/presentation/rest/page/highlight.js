// Colours for code in an answer: comments, strings, numbers and keywords, drawn on ranges so that no element is added.

const MAX_CHARS = 50_000; // of a block; a longer one stays plain
const C_COMMENT = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
const HASH_COMMENT = String.raw`#[^\n]*`;
const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;
const NUMBER = String.raw`\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\w{0,3}\b`;

const languages = [
  {
    names: "python py",
    comment: HASH_COMMENT,
    string: String.raw`[rbuf]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${STRINGS})`,
    words: `and as assert async await break case class continue def del elif else except False finally for from global if import in
      is lambda match None nonlocal not or pass raise return True try while with yield`,
  },
  {
    names: "javascript js jsx typescript ts tsx mjs",
    comment: C_COMMENT,
    string: `${STRINGS}|\`(?:\\\\.|[^\`\\\\])*\`?`,
    words: `any as async await boolean break case catch class const continue debugger default delete do else enum export extends false
      finally for from function if implements import in instanceof interface let new null number of private public readonly return
      static string super switch this throw true try type typeof undefined var void while yield`,
  },
  {
    names: "java kotlin kt scala c h cpp c++ cc hpp csharp cs c# go golang rust rs swift php dart",
    comment: C_COMMENT,
    string: `${STRINGS}|\`[^\`]*\`?`,
    words: `abstract as async await bool boolean break byte case catch chan char class const continue data default defer delete do
      double echo else enum explicit extends extern false final finally float fn for foreach func function fun go goto guard if impl
      implements import in inline instanceof int interface internal let long loop map match mod module move mut namespace new nil null
      nullptr object operator override package private protected pub public range readonly ref return select sealed self short
      signed sizeof static string struct super switch template this throw throws trait true try type typedef union unsafe unsigned
      use using val var virtual void volatile when where while yield`,
  },
  {
    names: "bash sh shell zsh console dockerfile makefile make",
    comment: String.raw`(?<!\S)#[^\n]*`,
    string: String.raw`"(?:\\.|[^"\\])*"?|'[^']*'?`,
    words: `case do done elif else esac export fi for function if in local return set then until while cd echo sudo FROM RUN COPY ADD
      CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE`,
  },
  {
    names: "sql postgresql mysql sqlite",
    comment: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`,
    string: String.raw`'(?:''|[^'])*'?|"[^"\n]*"?`,
    flags: "i",
    words: `add all alter and as asc between by case create cross default delete desc distinct drop else end exists foreign from full
      group having if in index inner insert into is join key left like limit not null offset on or order outer primary references
      right select set table then union unique update using values view when where with`,
  },
  { names: "json yaml yml toml ini properties", comment: String.raw`(?<!\S)[#;][^\n]*`, string: STRINGS, words: "true false null yes no on off" },
  { names: "css scss less", comment: C_COMMENT, string: STRINGS, words: "important media import supports keyframes root var from to and not" },
  { names: "html xml svg vue", comment: String.raw`<!--[^]*?(?:-->|$)`, string: STRINGS, keyword: String.raw`<\/?[\w:-]+|\/?>` },
  { names: "ruby rb perl pl r lua elixir ex", comment: `${HASH_COMMENT}|--[^\\n]*`, string: STRINGS,
    words: `and begin break case class def defmodule do else elsif elseif end ensure false fn for function if in local module my next nil
      not or our repeat require rescue return self sub super then true unless until use when while yield TRUE FALSE NULL` },
];

const kinds = ["comment", "string", "number", "keyword"];
const drawn = "highlights" in CSS ? Object.fromEntries(kinds.map((kind) => [kind, new Highlight()])) : null;
for (const kind of drawn ? kinds : []) CSS.highlights.set(`code-${kind}`, drawn[kind]);

/** Colour the text of an element that has one text node; a language that is not known stays plain. */
export function highlight(element, name) {
  const node = element.firstChild;
  const rule = drawn && patternOf(name);
  if (!rule || node?.nodeType !== Node.TEXT_NODE || node.data.length > MAX_CHARS) return;
  for (const ranges of Object.values(drawn)) for (const range of ranges) if (!range.startContainer.isConnected) ranges.delete(range);
  for (const { groups, index, 0: found } of node.data.matchAll(rule)) {
    const kind = kinds.find((each) => groups[each] !== undefined);
    // A live range would collapse when the answer moves.
    if (kind) drawn[kind].add(new StaticRange({ startContainer: node, startOffset: index, endContainer: node, endOffset: index + found.length }));
  }
}

const patterns = new Map();

/** One expression with a group for each kind; a word that is none of them is passed over whole. */
function patternOf(name) {
  const language = languages.find(({ names }) => names.split(" ").includes(name));
  if (!language) return null;
  if (!patterns.has(language)) {
    const { comment, string, words, flags = "", keyword = String.raw`\b(?:${words.trim().split(/\s+/).join("|")})\b` } = language;
    patterns.set(language, new RegExp(
      `(?<comment>${comment})|(?<string>${string})|(?<number>${NUMBER})|(?<keyword>${keyword})|[\\p{L}_$][\\p{L}\\p{N}_$]*`, `gu${flags}`));
  }
  return patterns.get(language);
}
