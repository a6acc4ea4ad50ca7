/**
 * Inside an enclosure: asks the real Claude what is on standard input, through the gateway, and prints its messages, one a line.
 * Arguments: the folder with the SDK, the gateway's socket, the mode of permissions.
 */

import { text } from 'node:stream/consumers';
import { forward } from './forward.mjs';

const [sdk, socket, permissionMode = 'default'] = process.argv.slice(2);
const { query } = await import(`${sdk}/sdk.mjs`);
const { port, close } = await forward(socket);
const { HOME, PATH } = process.env;
const env = {
  HOME,
  PATH,
  CLAUDE_CONFIG_DIR: `${HOME}/.claude`,
  ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`,
  ANTHROPIC_API_KEY: 'a-session-token',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_TELEMETRY: '1',
  DISABLE_ERROR_REPORTING: '1',
};
const canUseTool = async (_name, input) => ({ behavior: 'allow', updatedInput: input });
const stderr = (words) => process.stderr.write(words);
const options = { env, cwd: process.cwd(), settingSources: [], permissionMode, canUseTool, stderr };
for await (const message of query({ prompt: await text(process.stdin), options })) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
close();
