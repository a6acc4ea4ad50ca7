/** From the log back to what a session tells between its executions. */

import type { BackgroundEvent } from '../events.ts';
import type { FeedItem } from './events.ts';
import { bundleFromWire } from './results.ts';

/** Undefined for what belongs to an execution, and for what lies in a file. */
export function toBackground(item: FeedItem): BackgroundEvent | undefined {
  if (item.type === 'saved') {
    const { checkpoint, names, bytes, lost } = item;
    return { type: 'saved', id: checkpoint, names, bytes, lost };
  }
  if (item.type === 'network_denied') {
    const { host, port, reason, more } = item;
    return { type: 'network_denied', host, port, reason, more };
  }
  if (!('background' in item) || !item.background) return undefined;
  const late = item.number === undefined ? {} : { execution: item.number };
  switch (item.type) {
    case 'stdout':
    case 'stderr':
      return { type: item.type, text: item.text, ...late };
    case 'progress':
      return { type: 'progress', task: item.task, text: item.text };
    case 'display':
      return item.data && { type: 'display', data: bundleFromWire(item.data), ...late };
    default:
      return undefined;
  }
}
