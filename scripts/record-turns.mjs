/**
 * `npm run record:turns`: prompts the real agents with a stand-in model behind them, and writes what they said, live and
 * in their transcripts, to test/recordings. The tests replay it, so that both end in the same state.
 */

import { recordAll } from '../test/recordings/record.ts';

const written = await recordAll(process.argv.slice(2));
for (const file of written) console.log(file);
