/** What a person sees who opens the address of the server: what it is, and the way in. It tells nothing of the server. */

import { pageOf } from './page.ts';

export const HOME_PAGE = pageOf(
  'Cella',
  `<h1>Cella</h1>
<p>This is a Cella server. Programs use it with a token: <code>cella run --url ADDRESS</code>, the client
<code>cella/client</code>, or plain HTTP.</p>
<p>In a browser, log in with the link that the server printed when it began, or with one that
<code>cella users login</code> makes. Then <a href="/docs">/docs</a> tells every route, and <a href="/openapi.json">/openapi.json</a> is the same for
programs.</p>`,
);
