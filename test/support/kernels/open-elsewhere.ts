/** Another process, on another data folder: opens the session of a key in a storage and prints what code gives. */

import { Session, shutdown, storageFromBootstrap } from '../../../src/index.ts';

const [config = '', dataDir = '', agentKey = '', code = ''] = process.argv.slice(2);
const storage = await storageFromBootstrap(JSON.parse(config));
const session = await Session.open({ storage, dataDir, agentKey });
const { repr, error, resumed } = await session.run(code);
console.log(JSON.stringify({ repr, error: error?.traceback, restored: resumed?.restored }));
await session.close();
await storage.close();
await shutdown();
