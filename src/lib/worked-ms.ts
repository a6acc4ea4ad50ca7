/** How long this thread has had a processor, in milliseconds: what others do meanwhile does not count. */
export function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
