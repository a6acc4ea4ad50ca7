/** Modes by their effect, against a provider that lies: in the places of a root host, and in both key modes. */

import { everything } from '../support/run/depth.ts';
import { lyingProvider, lyingProviderOfAdapter } from './lying-provider-tests.ts';

lyingProvider('behind the gateway', { keys: 'gateway', executor: 'subprocess', shows: 'everything' });
lyingProvider('with its key just in time', { keys: 'just-in-time', executor: 'subprocess', shows: 'everything' });
// With its key just in time, all lies reach the program.
lyingProvider('in a container, with its key just in time', {
  keys: 'just-in-time',
  executor: 'container',
  shows: 'a part',
});
if (everything) lyingProvider('in a container', { keys: 'gateway', executor: 'container', shows: 'a part' });
lyingProviderOfAdapter();
