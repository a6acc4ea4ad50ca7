/** All documents of a collection, page by page, so that however many there are, few are in memory. */

import { inSlices } from '../lib/event-loop.ts';
import type { DocumentStore, ListDocuments } from '../storage/contract.ts';

export interface EveryDocument {
  readonly id: string;
  readonly revision: number;
  /** Undefined where it is damaged: whoever removes all removes those, too. */
  readonly value: unknown;
}

/** By their ids; those that are removed meanwhile may be left out. */
export async function* everyDocument(
  documents: DocumentStore,
  collection: string,
  { limit = 50, ...from }: ListDocuments = {},
): AsyncGenerator<EveryDocument> {
  for (let after: string | undefined = from.after ?? ''; after !== undefined; ) {
    const page = await documents.list(collection, { ...from, limit, after });
    yield* inSlices(page.documents);
    for (const { id } of page.damaged) yield { id, revision: 0, value: undefined };
    after = page.next;
  }
}
