/** A page of the server's own, to be read in a browser: no script, nothing from elsewhere, and every text escaped. */

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

export const pageHeaders = { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY } as const;

const STYLE = `
  :root { color-scheme: light dark; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  code { font: 14px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
`;

/** `title` is a text, `body` is HTML. */
export function pageOf(title: string, body: string, style = STYLE): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${html(title)}</title><style>${style}</style></head><body>
${body}
</body></html>
`;
}

export function html(value: unknown): string {
  const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return String(value).replaceAll(/[&<>"']/g, (letter) => entities[letter] ?? letter);
}

/** A text in which what stands between backticks is code. */
export function prose(text: string): string {
  return html(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}
