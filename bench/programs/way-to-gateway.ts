/** An agent's path to the gateway, in its own process as in a runner: a loopback port, which it prints. */

import { openLoopbackForwarder } from '../../src/runner/loopback-forwarder.ts';

const { url } = await openLoopbackForwarder(process.argv[2] ?? '');
console.log(new URL(url).port);
// The parent process keeps this open.
process.stdin.resume().on('end', () => process.exit());
