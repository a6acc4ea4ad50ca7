/** A provider for the benchmark, in a process of its own: it streams an answer at once, and tells its port. */

import { createServer } from 'node:http';

const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const usage = { input_tokens: 10, output_tokens: 5 };
const answer = [
  event('message_start', { message: { model: 'claude-sonnet-4-5', usage } }),
  event('content_block_delta', { delta: { type: 'text_delta', text: 'Hello.' } }),
  event('message_delta', { usage }),
  event('message_stop', {}),
].join('');

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(answer);
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
// Whoever started it holds this open.
process.stdin.resume().on('end', () => process.exit());
