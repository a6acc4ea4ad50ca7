/** The way of an agent to the gateway, in a process of its own as a runner has it: a port of loopback, which it tells. */

import { openLoopbackForwarder } from '../../src/runner/loopback-forwarder.ts';

const { url } = await openLoopbackForwarder(process.argv[2] ?? '');
console.log(new URL(url).port);
// Whoever started it holds this open.
process.stdin.resume().on('end', () => process.exit());
