/** Parses YAML with bounded aliases, and finds the line of each part. */

import { type Document, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { messageOf } from './values.ts';

/** Limits alias expansion: a few lines of aliases can expand to gigabytes. */
const MAX_ALIASES = 100;

interface YamlProblem {
  readonly reason: string;
  readonly line: number | undefined;
}

/** Formats as `line 3: …`, or without the line if it is unknown. */
export function describeYamlProblem({ reason, line }: YamlProblem): string {
  return line === undefined ? reason : `line ${line}: ${reason}`;
}

export class YamlDocument {
  readonly value: unknown;
  readonly #document: Document;
  readonly #lines: LineCounter;

  private constructor(value: unknown, document: Document, lines: LineCounter) {
    this.value = value;
    this.#document = document;
    this.#lines = lines;
  }

  /** Returns the document, or why the text cannot be parsed. */
  static parse(text: string): YamlDocument | YamlProblem {
    const lines = new LineCounter();
    try {
      const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
      const error = document.errors[0];
      if (error) return { reason: firstLine(error.message), line: lines.linePos(error.pos[0]).line };
      return new YamlDocument(document.toJS({ maxAliasCount: MAX_ALIASES }), document, lines);
    } catch (error) {
      // Too many aliases, or more nesting than the stack holds.
      return { reason: firstLine(messageOf(error)), line: undefined };
    }
  }

  /** The line of a key, or of its deepest ancestor that exists. */
  lineOf(path: readonly PropertyKey[]): number | undefined {
    let node: unknown = this.#document.contents;
    let found: unknown = node;
    for (const step of path) {
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
        [found, node] = [pair?.key ?? found, pair?.value];
      } else if (isSeq(node)) {
        node = node.items[Number(step)];
        found = node ?? found;
      }
    }
    return isNode(found) && found.range ? this.#lines.linePos(found.range[0]).line : undefined;
  }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
