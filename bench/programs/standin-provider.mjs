/** A simulated provider in its own process: prints its port, and streams an answer at once. */

import { createServer } from 'node:http';

const event = (type, more) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const usage = { input_tokens: 10, output_tokens: 5 };
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-sonnet-4-5', content: [], usage };
const answer = [
  event('message_start', { message: { ...message, stop_reason: null, stop_sequence: null } }),
  event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hello.' } }),
  event('content_block_stop', { index: 0 }),
  event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage }),
  event('message_stop', {}),
].join('');

const server = createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(answer);
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
// The parent process keeps this open.
process.stdin.resume().on('end', () => process.exit());
