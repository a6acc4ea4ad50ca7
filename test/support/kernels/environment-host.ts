/** A host that has an environment, starts a program in it, tells the handle, and waits to be killed. */

import { openEnvironment, type Where } from './environments.ts';

const [where = '', script = ''] = process.argv.slice(2);
const environment = await openEnvironment(JSON.parse(where) as Where);
const { stdout } = await environment.exec(['python3', '-c', script]);
stdout.once('data', () => process.stdout.write(`${JSON.stringify(environment.handle())}\n`));
