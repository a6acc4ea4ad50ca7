/** A name of a model with `*` for any text. */

export function patternOf(text: string): (name: string) => boolean {
  const parts = text.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const shape = new RegExp(`^${parts.join('.*')}$`);
  return (name) => shape.test(name);
}
