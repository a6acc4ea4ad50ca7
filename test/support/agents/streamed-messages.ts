/** What an agent makes of a stream of server-sent events, by other means than those of the gateway. */
export function messagesIn(stream: string): unknown[] {
  const datas = stream.split(/\r\n\r\n|\r\r|\n\n/).map((event) =>
    event
      .split(/\r\n|[\r\n\u0085\u2028\u2029]/)
      .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).replace(/^ /, '')] : []))
      .join('\n'),
  );
  return datas.filter((data) => data !== '' && data.trim() !== '[DONE]').map((data) => JSON.parse(data));
}
