// A file of its own: the page's Content-Security-Policy allows no script in the page itself.
"use strict";
SwaggerUIBundle({
  dom_id: "#swagger-ui",
  url: "docs/openapi.json",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false, // a key stays in the open page, not in the browser's storage
  validatorUrl: null, // else the address of the document goes to a service of the vendor
});
