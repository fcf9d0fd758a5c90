// A legacy server whose words are not kind to pages: reports, a table, and some markup.
import { createServer } from "node:http";

const server = createServer((request, response) => {
  const answer = (status, body, type = "text/plain") => response.writeHead(status, { "content-type": type }).end(body);
  if (request.url === "/report/Oslo") return answer(200, "Temp: 5.0\nSky: Cloudy\n");
  if (request.url === "/report/Broken") return answer(200, "<script>hacked = 1</script>\n");
  if (request.url === "/stations") return answer(200, "name,height\nBlindern,94\nTryvann,514\n", "text/csv");
  return answer(404, "ERR 17 NO SUCH STATION");
});
server.listen(0, "127.0.0.1", () => console.log(`on http://127.0.0.1:${server.address().port}`));
